"""The data of the last runs, kept in memory: the next run is likely on the same."""

from __future__ import annotations

from faircil.config import RunConfig
from faircil.data.stream import TaskStream
from faircil.loading import load_stream
from faircil.sweep.work import Work

MOST = 2


class Streams:
    """Loads streams, and gives the same object again where the data is the same.

    Parameters
    ----------
    device : str
        Where new embeddings of texts are computed.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self._kept: dict[str, TaskStream] = {}

    def __call__(self, config: RunConfig, seed: int) -> TaskStream:
        """Return the stream of a run."""
        key = Work(config, seed).data
        stream = self._kept.pop(key, None) or load_stream(config, seed, device=self._device)
        self._kept[key] = stream  # the last used is the last to go
        for oldest in list(self._kept)[:-MOST]:
            del self._kept[oldest]
        return stream
