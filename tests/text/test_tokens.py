from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

from faircil.errors import DataError, UsageError
from faircil.text import tokens
from faircil.text.encoders import Encoder
from faircil.text.tokens import EMPTY, LONG, UNKNOWN, odd_notes, tokenize
from tiny_encoder import LENGTH, random_texts

CLS, SEP, PAD, UNK = 2, 3, 0, 1


def test_words_become_tokens_between_the_encoders_own(tiny_encoder: Encoder) -> None:
    found = tokenize(["She likes nurses", "he is"], tiny_encoder, 10)
    assert found.ids.dtype == torch.int32
    assert found.ids.tolist() == [[CLS, 5, 13, 9, 15, SEP], [CLS, 6, 7, SEP, PAD, PAD]]
    assert found.odd.tolist() == [0, 0]
    assert odd_notes(found.odd, 10) == []


def test_long_empty_and_unknown_texts_are_counted(tiny_encoder: Encoder) -> None:
    texts = ["he " * 9, "he " * 8, "", " \t\n", "漢字 и", "he и", "he is и"]
    found = tokenize(texts, tiny_encoder, 10)
    assert found.ids.shape == (7, 10)
    assert found.ids[0].tolist() == [CLS, *[6] * 8, SEP]
    assert torch.equal(found.ids[0], found.ids[1])
    assert found.ids[2].tolist() == found.ids[3].tolist() == [CLS, SEP, *[PAD] * 8]
    assert found.odd.tolist() == [LONG, 0, EMPTY, EMPTY, UNKNOWN, 0, 0]
    assert odd_notes(found.odd, 10) == [
        "texts longer than 10 tokens, truncated: 1 of 7",
        "texts that are empty, so the encoder cannot distinguish them: 2 of 7",
        "texts of which the encoder knows less than half (another language?): 1 of 7",
    ]


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=()), max_size=60), max_size=6))
def test_any_text_becomes_a_row(tiny_encoder: Encoder, texts: list[str]) -> None:
    found = tokenize(texts, tiny_encoder, 12)
    assert len(found.ids) == len(texts)
    assert 1 <= found.ids.shape[1] <= 12
    assert ((found.ids >= 0) & (found.ids < len(tiny_encoder.tokenizer))).all()
    assert (found.ids[:, 0] == CLS).all() if texts else True


def test_halves_of_characters_are_no_harm_and_pairs_of_halves_are_joined(
    tiny_encoder: Encoder,
) -> None:
    found = tokenize(["he \ud83d is", "he \ud83d\ude00 is", "he 😀 is"], tiny_encoder)
    assert found.ids[0].tolist() == [CLS, 6, 7, SEP, PAD]
    assert found.ids[1].tolist() == [CLS, 6, UNK, 7, SEP]
    assert torch.equal(found.ids[1], found.ids[2])


def test_batches_do_not_matter(tiny_encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = random_texts(100)
    whole = tokenize(texts, tiny_encoder, 20)
    monkeypatch.setattr(tokens, "ROWS", 7)
    monkeypatch.setattr(tokens, "CHARACTERS", 200)
    parts = tokenize(texts, tiny_encoder, 20)
    assert torch.equal(whole.ids, parts.ids)
    assert whole.odd.tolist() == parts.odd.tolist()
    assert whole.odd.any()


def test_batches_are_bounded_in_rows_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "ROWS", 3)
    monkeypatch.setattr(tokens, "CHARACTERS", 10)
    texts = ["aaa", "bbb", "ccc", "dddd", "e" * 6, "f" * 6, "g" * 99, "h"]
    batches = list(tokens._batches(texts))
    assert [len(batch) for batch in batches] == [3, 2, 1, 1, 1]
    assert [text for batch in batches for text in batch] == texts


@pytest.mark.parametrize("value", [None, float("nan"), 3])
def test_what_is_no_text_is_named(tiny_encoder: Encoder, value: object) -> None:
    with pytest.raises(DataError, match=r"1 of 2 texts are not strings: rows 1 \(from 0\)"):
        tokenize(["he", value], tiny_encoder)  # type: ignore[list-item]


@pytest.mark.parametrize("most", [0, 2, LENGTH + 1])
def test_a_length_that_the_encoder_cannot_take_is_refused(tiny_encoder: Encoder, most: int) -> None:
    with pytest.raises(UsageError, match=f"max_tokens is {most}, expected 3 to {LENGTH}"):
        tokenize(["he"], tiny_encoder, most)


def test_no_texts_are_no_rows(tiny_encoder: Encoder) -> None:
    assert tokenize([], tiny_encoder).ids.shape == (0, 1)


def test_rows_are_filled_with_the_encoders_own_padding(tiny_encoder: Encoder) -> None:
    other = replace(tiny_encoder, pad_id=4)
    assert tokenize(["he is", ""], other).ids[1].tolist() == [CLS, SEP, 4, 4]


@given(
    st.lists(st.sampled_from(["she ", "music\n", "漢 ", " ", "\t", "a" * 30, "nurse"]), max_size=80)
)
def test_of_long_texts_the_beginning_is_enough(tiny_encoder: Encoder, parts: list[str]) -> None:
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "BEGINNING", 10**9)
        expected = tokenize([text], tiny_encoder, 6)
        patch.setattr(tokens, "BEGINNING", 5)
        found = tokenize([text], tiny_encoder, 6)
    assert torch.equal(found.ids, expected.ids)
    assert found.odd.tolist() == expected.odd.tolist()


def test_the_rest_of_a_long_text_is_not_tokenised(
    tiny_encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Watched:
        def __init__(self, tokenizer: Any) -> None:
            self._tokenizer = tokenizer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tokenizer, name)

        def __call__(self, texts: list[str], **options: Any) -> Any:
            seen.extend(map(len, texts))
            return self._tokenizer(texts, **options)

    encoder = replace(tiny_encoder, tokenizer=Watched(tiny_encoder.tokenizer))
    tokenize(["she is " * 10_000], encoder, 6)
    assert max(seen) <= 6 * tokens.BEGINNING


def test_an_encoder_without_room_for_a_word_is_refused(tiny_encoder: Encoder) -> None:
    with pytest.raises(DataError, match=r"puts 2 tokens of its own around a text and takes no"):
        tokenize(["she"], replace(tiny_encoder, max_length=2), 5)
