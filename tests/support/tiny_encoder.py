"""A BERT with 2 layers of width 16, and a tokenizer of a few words, in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from faircil.text.encoders import Encoder, load_encoder, quiet

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("she", "he", "is", "a", "nurse", "doctor", "judge", "and", "likes", "music", "##s", "in")
LENGTH = 128  # positions in a row


def write_tiny_encoder(folder: Path, *, seed: int = 0, dropout: float = 0.1) -> Path:
    """Write all files of an encoder with random weights."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(SPECIAL + WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.2,  # large enough for texts to differ in the untrained encoder
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = BertModel(config)
    with quiet():
        model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(SPECIAL + WORDS) + "\n", encoding="utf-8")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "model_max_length": LENGTH,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def random_texts(n: int, most: int = 30, seed: int = 0) -> list[str]:
    """Draw texts of 1 to ``most`` words."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, most + 1, (n,), generator=generator).tolist()
    words = [word for word in WORDS if not word.startswith("##")]
    return [
        " ".join(words[k] for k in torch.randint(len(words), (length,), generator=generator))
        for length in lengths
    ]


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Return the encoder, which is created once."""
    return load_encoder(write_tiny_encoder(tmp_path_factory.mktemp("tiny-encoder")))
