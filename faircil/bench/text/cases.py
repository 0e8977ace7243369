"""What is timed: ways to train, and ways to embed."""

from __future__ import annotations

from dataclasses import dataclass

from faircil.text.passes import TOKEN_BUDGET


@dataclass(frozen=True)
class Training:
    """A way to train.

    Parameters
    ----------
    token_budget : int
        Tokens whose activations are in memory at once. A step with more goes through the encoder
        twice.
    shortest : float
        Length of the shortest text, as a part of the longest; lengths are drawn evenly.
    """

    token_budget: int = TOKEN_BUDGET
    shortest: float = 1.0

    @property
    def name(self) -> str:
        """What people call it."""
        words = f"training, {self.token_budget:,} tokens at once"
        return words if self.shortest == 1 else f"{words}, texts of all lengths"


@dataclass(frozen=True)
class Embedding:
    """A way to embed the corpus with a frozen encoder.

    Parameters
    ----------
    part : float
        Of the corpus; all of it is embedded only once, not in each round.
    token_budget : int
    precision : str
        See :class:`faircil.text.passes.Passing`.
    shortest : float
        Length of the shortest text, as a part of the longest; lengths are drawn evenly.
    """

    part: float
    token_budget: int = TOKEN_BUDGET
    precision: str = "auto"
    shortest: float = 1.0

    @property
    def name(self) -> str:
        """What people call it."""
        corpus = "the whole corpus" if self.part == 1 else f"{100 * self.part:g} % of the corpus"
        words = [f"{self.token_budget:,} tokens at once", corpus]
        if self.shortest < 1:
            words.append("texts of all lengths")
        if self.precision != "auto":
            words.append(self.precision)
        return ", ".join(words)


# The first of each is what a run does by default; the sentences of the page are about it.
SHORTEST = 0.125
TRAININGS = (Training(), Training(TOKEN_BUDGET // 4), Training(shortest=SHORTEST))
EMBEDDINGS = (
    Embedding(0.1),
    Embedding(0.1, token_budget=4 * TOKEN_BUDGET),
    Embedding(0.1, token_budget=TOKEN_BUDGET // 4),
    Embedding(0.1, shortest=SHORTEST),
    Embedding(0.01, precision="float32"),
    Embedding(1.0),
)
