"""Settings for text inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel

from faircil.fields import SETTINGS, Count, Natural, one_of
from faircil.text.passes import FINE_TUNED, FROZEN, POOLINGS, PRECISIONS, TOKEN_BUDGET
from faircil.text.tokens import MAX_TOKENS

FOR_TRAINED = {"token_budget", "trainable_layers"}
FOR_FROZEN = {"hidden", "net"}  # of the net on top of the embeddings


def encoder_mode(finetune: bool) -> str:
    """Return the name of a trained or frozen encoder in the shipped settings tables."""
    return "fine-tuned" if finetune else "frozen"


class TextOptions(BaseModel):
    """Settings of the text encoder.

    The docstring below a field is its help text, shown by ``faircil list settings``.
    """

    model_config = SETTINGS

    encoder: str = "minilm"
    """text encoder: minilm, a folder, or a Hugging Face name whose files are in the local cache"""
    finetune: bool = False
    """whether to fine-tune the encoder; otherwise its embeddings are computed once and cached"""
    max_tokens: Count = MAX_TOKENS
    """maximum number of tokens per text"""
    pooling: Annotated[str, one_of("pooling", POOLINGS, "auto")] = "auto"
    """vector of a text: cls, its first token; mean, the mean over all tokens; auto: cls for a
    fine-tuned encoder, else mean"""
    precision: Annotated[str, one_of("precision", PRECISIONS)] = "auto"
    """number format inside the encoder; auto: bfloat16 on a GPU that supports it, else float32"""
    token_budget: Count = TOKEN_BUDGET
    """maximum number of tokens in memory at once while the encoder is trained"""
    trainable_layers: Natural | None = None
    """number of the encoder's last layers to train; default: all"""

    @property
    def mode(self) -> str:
        """Name of this use of the encoder in the shipped settings tables."""
        return encoder_mode(self.finetune)

    @property
    def pool(self) -> str:
        """The pooling, with ``auto`` resolved."""
        if self.pooling != "auto":
            return self.pooling
        return FINE_TUNED if self.finetune else FROZEN


def encoder_mistakes(options: TextOptions, given: Iterable[str]) -> list[str]:
    """Return the given settings that have no effect with these options."""
    this, other = ("trained", "frozen") if options.finetune else ("frozen", "trained")
    unused = sorted((FOR_FROZEN if options.finetune else FOR_TRAINED) & set(given))
    if not unused:
        return []
    return [
        f"setting {', '.join(unused)} is for an encoder that is {other}, and this one is {this}; "
        f"add finetune={str(not options.finetune).lower()}, or leave it out"
    ]
