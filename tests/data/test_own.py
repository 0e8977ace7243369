from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import TypeAdapter

from any_text import NUL
from faircil.data.own import OwnData, load_own
from faircil.data.stream import TaskStream
from faircil.errors import DataError, FaircilError, UsageError
from faircil.samples import Samples, concatenate, group_counts

N_INPUTS = 3 + 3 + 2  # age, pay and member; three jobs; two races


def make_table() -> pd.DataFrame:
    """Return 4 classes × 2 sexes × 2 races × 10 rows, in a mixed order."""
    n = 160
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "pay": rng.normal(size=n).round(3),
            "job": rng.choice(["cook", "smith", "baker"], n),
            "member": rng.random(n) < 0.5,
            "sex": np.tile(["F", "M"], n // 2),
            "race": np.tile(np.repeat(["black", "white"], 2), n // 4),
            "y": np.repeat(["d", "b", "a", "c"], n // 4),
        }
    )
    return table.iloc[rng.permutation(n)].reset_index(drop=True)


def load(folder: Path, table: pd.DataFrame, seed: int = 0, **options: Any) -> TaskStream:
    path = folder / "people.csv"
    table.to_csv(path, index=False)
    return load_own(replace(OwnData(str(path), "y", ("sex",)), **options), seed)


def same(first: TaskStream, second: TaskStream) -> bool:
    return all(
        torch.allclose(a.x, b.x, atol=1e-5) and torch.equal(a.keys(), b.keys())
        for one, two in zip(first.tasks, second.tasks, strict=True)
        for a, b in ((one.train, two.train), (one.test, two.test))
    )


def test_defaults_cut_a_table_into_tasks(tmp_path: Path) -> None:
    stream = load(tmp_path, make_table())
    assert stream.name == "people"
    assert stream.class_names == ("a", "b", "c", "d")
    assert [task.classes for task in stream.tasks] == [(0, 1), (2, 3)]
    assert (stream.attribute, stream.attribute_values) == ("sex", ("F", "M"))
    for task in stream.tasks:
        assert set(group_counts(task.train).values()) == {14}
        assert set(group_counts(task.test).values()) == {6}
        assert task.train.x.shape[1] == N_INPUTS


def test_only_the_first_task_standardises(tmp_path: Path) -> None:
    first, second = load(tmp_path, make_table()).tasks
    age_and_pay = first.train.x[:, :2]
    torch.testing.assert_close(age_and_pay.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(age_and_pay.std(0, correction=0), torch.ones(2), atol=1e-5, rtol=0)
    assert (second.train.x[:, :2].mean(0).abs() > 1e-3).all()


def test_inputs_belong_to_their_rows(tmp_path: Path) -> None:
    table = make_table().assign(pay=lambda t: t["y"].map({"a": 0.0, "b": 2.0, "c": 4.0, "d": 6.0}))
    stream = load(tmp_path, table)
    for samples in (part for task in stream.tasks for part in (task.train, task.test)):
        # Classes a and b are equally frequent in the first task: mean 1, deviation 1.
        torch.testing.assert_close(samples.x[:, 1], 2.0 * samples.y - 1)


def test_tasks_choose_and_order_classes(tmp_path: Path) -> None:
    stream = load(tmp_path, make_table(), tasks="d|a, c")
    assert stream.class_names == ("a", "c", "d")
    assert [task.classes for task in stream.tasks] == [(2,), (0, 1)]
    assert "left out: b" in stream.notes[0]


def test_numeric_labels_keep_numeric_order(tmp_path: Path) -> None:
    table = make_table().assign(y=lambda t: t["y"].map({"a": 10, "b": 9, "c": 100, "d": 2}))
    stream = load(tmp_path, table, tasks="9,10|2,100")
    assert stream.class_names == ("2", "9", "10", "100")
    assert stream.tasks[0].classes == (1, 2)


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        (("01", "1", "2"), ("01", "1", "2")),
        (("1.0", "1", "10", "9"), ("1", "9", "10")),
        (("true", "True", "false"), ("False", "True")),
        (("-01", "-1"), ("-01", "-1")),
    ],
)
def test_codes_are_no_numbers(
    tmp_path: Path, written: tuple[str, ...], classes: tuple[str, ...]
) -> None:
    rows = [f"{number},{label},{label}" for number in range(8) for label in written]
    (tmp_path / "t.csv").write_text("\n".join(["a,job,sex", *rows, ""]))
    spec = OwnData(str(tmp_path / "t.csv"), "job", ("sex",))
    found = load_own(spec, seed=0)
    assert found.class_names == classes
    assert found.attribute_values == classes


def test_several_attributes_make_one(tmp_path: Path) -> None:
    stream = load(tmp_path, make_table(), sensitive=("sex", "race"))
    assert stream.attribute == "sex × race"
    assert stream.attribute_values == ("F × black", "F × white", "M × black", "M × white")
    assert set(group_counts(stream.tasks[0].train).values()) == {7}


def test_without_attribute_there_is_no_z(tmp_path: Path) -> None:
    stream = load(tmp_path, make_table(), sensitive=())
    assert (stream.attribute, stream.attribute_values) == (None, ())
    assert stream.tasks[0].train.z is None


def test_sensitive_columns_are_features_on_request(tmp_path: Path) -> None:
    stream = load(tmp_path, make_table(), use_sensitive=True)
    assert stream.tasks[0].train.x.shape[1] == N_INPUTS + 2


def test_npz_equals_csv(tmp_path: Path) -> None:
    table = make_table()
    path = tmp_path / "people.npz"
    arrays: dict[str, Any] = {
        name: table[name].to_numpy(str) for name in ("job", "race", "sex", "y")
    }
    np.savez(path, x=table[["age", "pay"]], member=table["member"], **arrays)
    assert same(load_own(OwnData(str(path), "y", ("sex",)), 0), load(tmp_path, table))


def test_seed_decides_the_test_rows(tmp_path: Path) -> None:
    first, again, other = (load(tmp_path, make_table(), seed) for seed in (0, 0, 1))
    assert same(first, again)
    assert not same(first, other)


def test_column_order_does_not_matter_to_classes_and_groups(tmp_path: Path) -> None:
    table = make_table()
    one, two = load(tmp_path, table), load(tmp_path, table[table.columns[::-1]])
    for a, b in zip(one.tasks, two.tasks, strict=True):
        assert torch.equal(a.train.keys(), b.train.keys())
        assert torch.equal(a.test.keys(), b.test.keys())


def test_test_column_decides_the_test_rows(tmp_path: Path) -> None:
    table = make_table()
    table["part"] = np.where(np.arange(len(table)) < 100, "train", "test")
    stream = load(tmp_path, table, test_column="part")
    assert len(concatenate([task.test for task in stream.tasks])) == 60
    assert stream.tasks[0].train.x.shape[1] == N_INPUTS


def test_notes_name_single_groups_and_text_columns(tmp_path: Path) -> None:
    table = make_table()
    table.loc[0, "sex"] = "X"
    stream = load(tmp_path, table)
    single, text = stream.notes
    assert single.endswith(f"{table['y'][0]} × X")
    assert "single sample is for training" in single
    assert "job (3), race (2)" in text
    assert (concatenate([task.train for task in stream.tasks]).keys()[:, 1] == 2).sum() == 1


def with_value(column: str, value: Any, rows: int = 2) -> pd.DataFrame:
    table = make_table().astype({column: object})
    table.loc[: rows - 1, column] = value
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (with_value("age", np.inf), "'age' has 2 value.* infinite"),
        (with_value("age", -1e39), "'age' has 2 value.* exceed"),
        (with_value("y", None), "'y' has 2 missing value"),
        (with_value("y", None, 160), "'y' has 160 missing value"),
        (with_value("sex", None), "'sex' has 2 missing value"),
        (with_value("y", "a", 160), r"label column 'y' has 1 class\(es\)"),
        (with_value("sex", "F", 160), "sensitive column 'sex' has 1 distinct value"),
        (with_value("y", "rare", 1), "have only one sample: rare"),
        (make_table().assign(y=np.arange(160)), "only one sample: 0, 1, 2, 3, 4 and 155 more"),
        (make_table().assign(sex=np.arange(160)), "160 distinct numbers, more than 20; bin it"),
        (make_table().assign(sex=[f"p{i}" for i in range(160)]), "no test sample of class.* a, b"),
        (with_value("y", "e" * 1001), "label column 'y' has a value of 1,001 characters; .* 1,000"),
        (with_value("sex", "é" * 2000), "sensitive column 'sex' has a value of 2,000 characters"),
        (make_table()[["sex", "y"]], "no column left for features"),
    ],
)
def test_unusable_values_are_named(tmp_path: Path, table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, table)


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("train", "'part' marks no test row"),
        (1, "'part' marks no training row"),
        ("valid", "'part' has values such as 'valid'"),
        (None, "'part' has 160 missing value"),
        (make_table()["y"] == "a", "no training sample of class.* a; .*\n.*no test sample .* b, c"),
    ],
)
def test_unusable_test_columns_are_named(tmp_path: Path, mark: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, make_table().assign(part=mark), test_column="part")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "Y"}, "unknown column 'Y'"),
        ({"sensitive": ("sexe",)}, "unknown column 'sexe': did you mean 'sex'"),
        ({"test_column": "part"}, "unknown column 'part'"),
        ({"sensitive": ("y",)}, "column 'y' is given 2 times"),
        ({"sensitive": ("sex", "sex")}, "column 'sex' is given 2 times"),
        ({"tasks": "a,b||c"}, "task 2 of tasks 'a,b||c'"),
        ({"tasks": "a,b|e"}, "unknown class 'e'"),
        ({"test_share": 1.0}, "`test_share` is 1.0"),
    ],
)
def test_wrong_roles_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        load(tmp_path, make_table(), **options)
    assert message in str(raised.value)


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    table = pd.concat([make_table()] * 4).assign(age=np.inf, pay=None)
    table["bio"] = [f"{i} {'word ' * 20}" for i in range(640)]
    with pytest.raises(FaircilError) as raised:
        load(tmp_path, table)
    message = str(raised.value)
    assert message.count("\n") == 2
    assert "infinite" in message
    assert "'pay' has no value" in message
    assert "'bio' has 640 distinct values" in message


def test_gaps_in_features_are_filled_and_told(tmp_path: Path) -> None:
    table = with_value("age", None).assign(job=with_value("job", "NA")["job"])
    stream = load(tmp_path, table)
    assert any("missing values" in note and "age (2)" in note for note in stream.notes)


def test_rows_without_a_class_are_left_out_if_that_is_wanted(tmp_path: Path) -> None:
    stream = load(tmp_path, with_value("y", None), drop_missing=True)
    assert sum(len(task.train) + len(task.test) for task in stream.tasks) == 158
    assert any("left out: 2 (row 1, 2," in note for note in stream.notes)


def test_people_of_an_unknown_group_are_kept_if_that_is_wanted(tmp_path: Path) -> None:
    stream = load(tmp_path, with_value("sex", None, 8), unknown_group=True)
    assert sum(len(task.train) + len(task.test) for task in stream.tasks) == 160
    unknown = [int((part.z < 0).sum()) for task in stream.tasks for part in (task.train, task.test)]
    assert sum(unknown) == 8
    assert sum(unknown[1::2]) > 0  # some of them are for the test
    assert stream.attribute_values == ("F", "M")
    dropped = load(tmp_path, with_value("sex", None, 8), drop_missing=True)
    assert sum(len(task.train) + len(task.test) for task in dropped.tasks) == 152


def test_classes_per_task(tmp_path: Path) -> None:
    stream = load(tmp_path, make_table(), classes_per_task=1)
    assert [task.classes for task in stream.tasks] == [(c,) for c in range(stream.n_classes)]
    with pytest.raises(FaircilError, match="give one of them"):
        load(tmp_path, make_table(), classes_per_task=3, tasks="a,b")


def test_a_column_in_two_roles_is_reported_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        load(tmp_path, with_value("sex", None), use_sensitive=True)
    assert str(raised.value).count("'sex' has 2 missing") == 1


def test_mistakes_of_many_columns_are_cut_short(tmp_path: Path) -> None:
    wide = pd.DataFrame(np.inf, index=range(160), columns=[f"w{i}" for i in range(30)])
    with pytest.raises(DataError, match="and 10 more of this kind"):
        load(tmp_path, pd.concat([make_table(), wide], axis=1))


def test_numbers_far_outside_the_first_task_are_refused(tmp_path: Path) -> None:
    table = make_table()
    table["pay"] = np.where(table["y"] == "d", 1e10, 1e-30 * table["age"])
    with pytest.raises(DataError, match="task 2 has NaN or infinite features"):
        load(tmp_path, table)


def test_rows_of_left_out_classes_are_not_judged(tmp_path: Path) -> None:
    table = make_table()
    table.loc[table["y"] == "d", "age"] = np.nan
    assert load(tmp_path, table, tasks="a,b|c").n_classes == 3


def with_texts(labels: dict[str, int] | None = None, **columns: Any) -> pd.DataFrame:
    """Return the people with a text each that tells who they are."""
    table = make_table()
    table["y"] = table["y"].map(labels or {name: name for name in "abcd"})
    people = zip(table["y"], table["sex"], table.index, strict=True)
    table["bio"] = [f"{y}, {sex}, number {number}: مرحبا 👋{NUL}" for y, sex, number in people]
    return table.assign(**columns)


def texts_of(stream: TaskStream, samples: Samples) -> list[str]:
    assert stream.texts is not None
    return [stream.texts[number] for number in samples.x.tolist()]


@pytest.mark.parametrize("labels", [None, {"a": 10, "b": 9, "c": 100, "d": 2}])
def test_texts_are_the_only_input(tmp_path: Path, labels: dict[str, int] | None) -> None:
    table = with_texts(labels)
    table.loc[3, "age"] = np.nan  # of no importance
    stream = load(tmp_path, table, text="bio")
    without = load(tmp_path, table.fillna({"age": 0}))
    assert sorted(stream.texts or ()) == sorted(table["bio"])
    for task, usual in zip(stream.tasks, without.tasks, strict=True):
        for samples, same_rows in ((task.train, usual.train), (task.test, usual.test)):
            assert samples.x.dtype == torch.int64
            assert torch.equal(samples.keys(), same_rows.keys())
            for text, (y, z) in zip(texts_of(stream, samples), samples.keys(), strict=True):
                who = f"{stream.class_names[y]}, {stream.attribute_values[z]}, "
                assert text.startswith(who)
    assert stream.notes == (
        "columns left out, since the text is the only input: age, pay, job, member, race",
    )


def test_texts_of_left_out_classes_are_not_judged(tmp_path: Path) -> None:
    table = with_texts()
    table.loc[table["y"] == "d", "bio"] = ""
    stream = load(tmp_path, table, text="bio", tasks="c,a|b")
    assert len(stream.texts or ()) == 120
    assert {text[0] for text in texts_of(stream, stream.tasks[1].train)} == {"b"}


@pytest.mark.parametrize("missing", ["", "NA", "None", None])
def test_missing_texts_are_counted_with_their_rows(tmp_path: Path, missing: str | None) -> None:
    table = with_texts()
    table.loc[[4, 7], "bio"] = missing
    with pytest.raises(
        DataError, match=r"'bio' has 2 missing value.* in row 5, 8 \(counted from 1"
    ):
        load(tmp_path, table, text="bio")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (range(160), "text column 'bio' holds numbers, such as 0, not texts"),
        (None, r"'bio' has 160 missing value\(s\)"),
        ("the same", "160 texts of column 'bio' are all the same, 'the same'; nothing"),
        (["  " if i % 2 else "   " for i in range(160)], "missing|are all the same, ''; nothing"),
    ],
)
def test_unusable_texts_are_named(tmp_path: Path, texts: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, with_texts(bio=texts), text="bio")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "boi"}, "unknown column 'boi': did you mean 'bio'"),
        ({"text": "y"}, "column 'y' is given 2 times; label, sensitive, test, text, image"),
        ({"text": "sex"}, "column 'sex' is given 2 times"),
        ({"text": "job", "test_column": "job"}, "column 'job' is given 2 times"),
        ({"text": "bio", "use_sensitive": True}, "the text of column 'bio' is the only input"),
    ],
)
def test_wrong_text_columns_are_named(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        load(tmp_path, with_texts(), **options)
    assert message in str(raised.value)


def test_specifications_saved_before_there_were_texts_still_load() -> None:
    saved = {"path": "people.csv", "label": "y", "sensitive": ["sex"], "tasks": None}
    saved |= {"use_sensitive": False, "test_column": None, "test_share": 0.3}
    own = TypeAdapter(OwnData).validate_python(saved)
    assert own == OwnData("people.csv", "y", ("sex",))


@pytest.mark.parametrize("blank", [" ", "\x1c", "\u2003"])
def test_a_class_of_blanks_is_missing(tmp_path: Path, blank: str) -> None:
    rows = [f"{number},{job},{sex}" for number, job in enumerate("xyxyxyxy") for sex in "fm"]
    (tmp_path / "t.csv").write_text("\n".join(["a,job,sex", *rows, f"1,{blank},f"]) + "\n")
    own = OwnData(path=str(tmp_path / "t.csv"), label="job", sensitive=("sex",))
    with pytest.raises(DataError, match="job"):
        load_own(own, 0)
