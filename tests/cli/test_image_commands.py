"""From folders and tables of images to models, and texts with a frozen encoder."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cli_outcome import Cli
from tiny_encoder import write_tiny_encoder
from tiny_images import COLOURS, write_checkpoint, write_images


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("FAIRCIL_CACHE", str(tmp_path / "cache"))
    encoder = write_checkpoint(tmp_path / "net.pth")
    return ["--set", f"image_encoder={encoder}", "image_size=32"]


FIT = ("fit", "--method", "moments", "-o", "model")


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: list[dict[str, object]]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_from_a_folder_of_classes_to_predictions_of_a_new_one(
    cli: Cli, tmp_path: Path, settings: list[str]
) -> None:
    write_images(tmp_path / "photos", names=("red", "green"))
    (tmp_path / "photos" / "red" / "notes.txt").touch()
    outcome = cli(*FIT, "--images", "photos", *settings, "width=40")
    assert outcome.code == 0, outcome.err
    assert "images embedded: 12 of 12" in outcome.err
    assert "left out: red/notes.txt" in outcome.err
    assert "learned 12 rows" in outcome.err
    write_images(tmp_path / "more", names=("blue",))
    outcome = cli("update", "model", "--images", "more")
    assert outcome.code == 0, outcome.err
    assert "new classes: 'blue'; 3 classes in all" in outcome.err
    # A folder without classes.
    write_images(tmp_path / "new", each=2, seed=9)
    for file in sorted((tmp_path / "new").rglob("*.png")):
        file.rename(tmp_path / "new" / f"{file.parent.name}-{file.name}")
    outcome = cli("predict", "model", "--images", "new", "-o", "out.csv")
    assert outcome.code == 0, outcome.err
    found = rows_of("out.csv")
    assert len(found) == 6
    assert sum(row["path"].startswith(row["prediction"]) for row in found) >= 5
    assert cli("forget", "model", "--images", "more").code == 0
    shown = json.loads(cli("show", "model", "--json").out)
    assert {group["label"]: group["rows"] for group in shown["groups"]}["blue"] == 0


def test_a_table_of_paths_with_an_attribute_and_copies(
    cli: Cli, tmp_path: Path, settings: list[str]
) -> None:
    write_images(tmp_path / "photos", each=4)
    rows: list[dict[str, object]] = [
        {"photo": f"photos/{name}/{n}.png", "kind": name, "light": "ab"[n % 2], "id": n}
        for name in COLOURS
        for n in range(4)
    ]
    rows[0]["photo"] = rows[1]["photo"] = str(tmp_path / "photos" / "red" / "0.png")
    table = write_rows(tmp_path / "photos.csv", rows)
    data = ("--data", table, "--images", "photo", "--label", "kind", "--sensitive", "light")
    outcome = cli(*FIT, *data, *settings, "width=40", "augment=flip")
    assert outcome.code == 0, outcome.err
    assert "learned 24 rows" in outcome.err
    assert "each image is learned 2 times" in outcome.err
    assert "images named in several rows" in outcome.err
    assert "columns left out, since the image is the only input: id" in outcome.err
    assert cli("predict", "model", "--data", table, "--keep", "id", "-o", "out.csv").code == 0
    found = rows_of("out.csv")
    assert [row["photo"] for row in found] == [row["photo"] for row in rows]
    assert sum(row["prediction"] == one["kind"] for row, one in zip(found, rows, strict=True)) > 9
    refused = cli("forget", "model", "--data", table)
    assert refused.code == 1
    assert "as many as the model has learned" in refused.err
    some = write_rows(tmp_path / "some.csv", rows[:2])
    assert cli("forget", "model", "--data", some).code == 0
    shown = json.loads(cli("show", "model", "--json").out)
    assert sum(group["rows"] for group in shown["groups"]) == 20


def test_another_encoder_is_refused(cli: Cli, tmp_path: Path, settings: list[str]) -> None:
    write_images(tmp_path / "photos", each=2)
    assert cli(*FIT, "--images", "photos", *settings, "width=40").code == 0
    before = Path("model/model.json").read_bytes()
    write_checkpoint(tmp_path / "net.pth", seed=1)
    for command in (["predict", "model", "-o", "out.csv"], ["update", "model"]):
        outcome = cli(*command, "--images", "photos")
        assert outcome.code == 1
        assert "the model was fitted with encoder" in outcome.err
        assert "restore the earlier files, or fit a new model" in outcome.err
    assert Path("model/model.json").read_bytes() == before


def test_broken_images_are_all_named_and_nothing_is_changed(
    cli: Cli, tmp_path: Path, settings: list[str]
) -> None:
    write_images(tmp_path / "photos", each=10)
    (tmp_path / "photos" / "red" / "bad.png").write_text("no image")
    (tmp_path / "photos" / "blue" / "empty.jpg").touch()
    for command in (FIT, ("run", "--method", "auto", "-o", "runs")):
        outcome = cli(*command, "--images", "photos", *settings, "width=40")
        assert outcome.code == 1
        assert outcome.err.count("2 of 32 image files cannot be used") == 1, outcome.err
        assert "red/bad.png: it is not in an image format" in outcome.err
        assert "blue/empty.jpg: it is empty" in outcome.err
    assert not Path("model").exists()


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ([], "has no images"),
        (["notes.txt"], "has no images"),
        (["red/1.png", "red/2.png"], "has 1 class(es)"),
        (["red/1.png", "red/2.png", "blue/1.png", "blue/2.png", "x.png"], "are directly in photos"),
    ],
)
def test_folders_that_have_no_classes_say_so(
    cli: Cli, tmp_path: Path, layout: list[str], message: str
) -> None:
    (tmp_path / "photos").mkdir()
    for name in layout:
        (tmp_path / "photos" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "photos" / name).write_text("never read")
    outcome = cli(*FIT, "--images", "photos")
    assert outcome.code == 1
    assert message in outcome.err


def test_the_second_folder_may_be_an_attribute(
    cli: Cli, tmp_path: Path, settings: list[str]
) -> None:
    for light in "ab":
        write_images(tmp_path / light, each=3, seed=ord(light))
        for name in COLOURS:
            (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / light / name).rename(tmp_path / "photos" / name / light)
    outcome = cli(*FIT, "--images", "photos", "--sensitive", "subfolder", *settings, "width=40")
    assert outcome.code == 0, outcome.err
    shown = json.loads(cli("show", "model", "--json").out)
    assert shown["attribute_values"] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--images", "nowhere"), "there is no such folder"),
        (("--images", ".", "--set", "net=conv"), "net 'conv' learns from pixels"),
        (("--images", ".", "--set", "encoder=minilm"), "setting 'encoder' is for texts"),
        (
            ("--data", "a.csv", "--label", "a", "--set", "augment=flip"),
            "setting 'augment' is for image files",
        ),
        (("--images", ".", "--set", "augment=turn"), "unknown augment 'turn'"),
    ],
)
def test_wrong_options_are_named(cli: Cli, words: tuple[str, ...], message: str) -> None:
    outcome = cli("fit", "--method", "er", "-o", "model", *words)
    assert outcome.code == 2
    assert message in outcome.err


def test_a_net_learns_from_pixels_and_is_kept(cli: Cli, tmp_path: Path) -> None:
    write_images(tmp_path / "photos")
    pixels = ("--set", "image_encoder=none", "image_size=8", "net=conv", "hidden=16")
    outcome = cli(
        *("fit", "--method", "er", "-o", "model", "--images", "photos"), *pixels, "epochs=30"
    )
    assert outcome.code == 0, outcome.err
    assert cli("predict", "model", "--images", "photos", "-o", "out.csv").code == 0
    found = rows_of("out.csv")
    assert sum(row["path"].startswith(row["prediction"]) for row in found) > 12


def test_a_run_on_images_is_found_again_and_its_model_goes_on(
    cli: Cli, tmp_path: Path, settings: list[str]
) -> None:
    write_images(tmp_path / "photos", names=("red", "green"))
    run = ("run", "--images", "photos", "--method", "moments", "-o", "runs", *settings, "width=40")
    run = (*run, "augment=flip")
    outcome = cli(*run)
    assert outcome.code == 0, outcome.err
    assert "not run again" in cli(*run).err
    model = "runs/seed-0/model"
    write_images(tmp_path / "more", names=("blue",))
    outcome = cli("update", model, "--images", "more")
    assert outcome.code == 0, outcome.err
    assert "learned 12 rows" in outcome.err  # six images and their copies
    assert cli("predict", model, "--images", "photos", "-o", "out.csv").code == 0
    found = rows_of("out.csv")
    assert sum(row["path"].startswith(row["prediction"]) for row in found) > 9
    write_images(tmp_path / "photos", names=("red", "green"), seed=1)  # other content
    assert "other" in cli(*run).err


def test_texts_have_models_too(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCIL_CACHE", str(tmp_path / "cache"))
    # Random weights, other ones with another version of transformers: by these, words differ.
    encoder = write_tiny_encoder(tmp_path / "encoder", seed=2)
    words = {"nurse": "she likes a nurse", "judge": "he is in music and"}
    rows: list[dict[str, object]] = [
        {"bio": f"{words[job]} {'a ' * n}", "job": job, "sex": "FM"[n % 2]}
        for job in words
        for n in range(6)
    ]
    table = write_rows(tmp_path / "bios.csv", rows)
    data = ("--data", table, "--text", "bio", "--label", "job", "--sensitive", "sex")
    given = ("--set", f"encoder={encoder}", "max_tokens=20", "width=40")
    refused = cli("fit", "--method", "er", "-o", "model", *data, *given[:2], "finetune=true")
    assert refused.code == 2
    assert "leave it out, and the encoder is frozen" in refused.err
    outcome = cli(*FIT, *data, *given)
    assert outcome.code == 0, outcome.err
    bare = write_rows(tmp_path / "bare.csv", [{"bio": row["bio"]} for row in rows])
    assert cli("predict", "model", "--data", bare, "-o", "out.csv").code == 0
    found = rows_of("out.csv")
    assert [row["prediction"] for row in found] == [row["job"] for row in rows]
    assert "bio" not in found[0]  # long texts are not repeated
    write_tiny_encoder(tmp_path / "encoder", seed=1)
    assert "the model was fitted with encoder" in cli("update", "model", "--data", table).err


def test_held_out_images_are_measured_without_copies(
    cli: Cli, tmp_path: Path, settings: list[str]
) -> None:
    write_images(tmp_path / "photos")
    held_out = ("--holdout", "0.34")
    outcome = cli(*FIT, "--images", "photos", *held_out, *settings, "width=40", "augment=flip")
    assert outcome.code == 0, outcome.err
    assert "learned 24 rows" in outcome.err
    assert "on 6 rows held out of fitting" in outcome.err
