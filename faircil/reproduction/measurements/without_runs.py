"""What exhibits share that measure by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest


class WithoutRuns:
    """An exhibit that needs no finished runs: the settings of what it measures are shipped."""

    def requests(self) -> Sequence[TuneRequest]:
        """Return nothing to choose."""
        return ()

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return no runs."""
        del tuned
        return ()
