"""How large the encoder and its texts are, and how much work that is."""

from __future__ import annotations

from dataclasses import dataclass

from faircil.errors import raise_all

CLASSES, TASKS, ATTRIBUTES = 25, 5, 2  # of BiasBios: professions, tasks, genders
QUOTA = 32  # samples of each earlier group in the buffer
BATCH = 64  # current samples of a step, and as many replayed ones
HEAD_WIDTH = 64  # numbers of an attention head, as in BERT
LEAST_TOKENS = 4  # a first one and a few words


@dataclass(frozen=True)
class Workload:
    """An encoder of BERT's kind and a corpus; the defaults are BERT-base and BiasBios.

    Parameters
    ----------
    layers, hidden : int
        Of the encoder.
    rows : int
        Texts for training, of all tasks.
    tokens : int
        Of each text.
    steps : int
        Training steps that are timed in a round.
    repeats : int
        Rounds.
    """

    layers: int = 12
    hidden: int = 768
    rows: int = 253_000
    tokens: int = 128
    steps: int = 100
    repeats: int = 3

    def __post_init__(self) -> None:
        least = {
            "layers": 1,
            "hidden": 1,
            "rows": CLASSES * ATTRIBUTES,
            "tokens": LEAST_TOKENS,
            "steps": 1,
            "repeats": 1,
        }
        mistakes = [
            f"--{name} is {getattr(self, name)}, expected at least {bound}"
            for name, bound in least.items()
            if getattr(self, name) < bound
        ]
        if self.hidden > HEAD_WIDTH and self.hidden % HEAD_WIDTH:
            mistakes.append(
                f"--hidden is {self.hidden}, expected a multiple of {HEAD_WIDTH}, the width of an "
                f"attention head, or less than {HEAD_WIDTH}"
            )
        raise_all(mistakes)

    @property
    def flops_per_token(self) -> float:
        """Products and sums of a forward pass, per token.

        A layer has 4 d² weights in its attention and 8 d² in its feed-forward part, each one
        product and one sum; attention compares a token with all others and adds them up.
        """
        return self.layers * (24.0 * self.hidden**2 + 4.0 * self.tokens * self.hidden)
