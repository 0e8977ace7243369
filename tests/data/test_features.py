from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from faircil.data.features import BUCKETS, MAX_NEW, NewValues, TableEncoder, fit_encoder
from faircil.data.table_columns import feature_mistakes
from faircil.errors import DataError
from faircil.packing import pack, unpack


def fitted(table: pd.DataFrame) -> TableEncoder:
    rows = np.arange(len(table))
    return fit_encoder(table, rows, rows)


def test_inputs_equal_those_computed_by_hand() -> None:
    table = pd.DataFrame(
        {
            "job": ["cook", "cook", "baker", "smith"],
            "age": [20, 40, 90, 35],
            "ok": [True, False, True, True],
            "same": [0.1, 0.1, 5.1, 0.1],
        }
    )
    encoder = fit_encoder(table, train=np.array([0, 1, 2]), first_task=np.array([0, 1]))
    # age: mean 30, deviation 10; same: constant in the first task, so centred only;
    # categories baker, cook; smith is unseen in training.
    expected = [
        [-1.0, 1, 0, 0, 1],
        [1.0, 0, 0, 0, 1],
        [6.0, 1, 5, 1, 0],
        [0.5, 1, 0, 0, 0],
    ]
    rows = np.array([3, 0, 2, 1])
    encoded = encoder.inputs(table.iloc[rows])
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded, np.array(expected)[rows], atol=1e-6)


@pytest.mark.parametrize("column", [[1.0, 3.0], ["u", "v"], [False, True]])
def test_one_kind_of_feature_is_enough(column: list[object]) -> None:
    rows = np.array([0, 1])
    table = pd.DataFrame({"x": column})
    encoded = fit_encoder(table, rows, rows).inputs(table)
    expected = {float: [[-1], [1]], str: [[1, 0], [0, 1]], bool: [[0], [1]]}[type(column[0])]
    assert encoded.tolist() == expected


def test_missing_numbers_are_the_median_with_an_input_that_says_so() -> None:
    table = pd.DataFrame({"age": [1.0, 3.0, np.nan, 5.0, 7.0]})
    encoder = fitted(table)
    x = encoder.inputs(table)
    assert x[:, 1].tolist() == [0, 0, 1, 0, 0]
    assert x[2, 0] == 0  # the median 4 is the mean here
    assert "age (1)" in encoder.notes[0]


def test_missing_categories_are_a_level_of_their_own() -> None:
    table = pd.DataFrame({"job": ["cook", None, "baker"]})
    assert fitted(table).inputs(table).tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_words_among_numbers_have_inputs_of_their_own() -> None:
    table = pd.DataFrame({"age": [*map(str, range(19)), "unknown"]})
    encoder = fitted(table)
    assert encoder.columns[0].kind == "number"
    x = encoder.inputs(table)
    assert x[:, 1].tolist() == [0] * 19 + [1]
    assert x[19, 0] == 0  # 9 is both median and mean
    # With too many words, they are categories.
    mixed = pd.DataFrame({"age": ["1", "2", "old", "young"]})
    assert fitted(mixed).columns[0].kind == "category"


def test_dates_are_day_month_and_weekday() -> None:
    table = pd.DataFrame({"born": ["1970-01-01", "1970-01-02", None]})
    column = fitted(table).columns[0]
    assert column.kind == "date"
    assert column.gaps
    assert np.array(column.fill).tolist() == [0.5, 1.0, 3.5]
    stamps = pd.DataFrame({"born": pd.to_datetime(table["born"])})
    np.testing.assert_array_equal(fitted(stamps).inputs(stamps), fitted(table).inputs(table))


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 has dates in nanoseconds alone")
@pytest.mark.parametrize("latest", ["9999-12-31", "2020-01-01 00:00:00.123456789"])
def test_dates_of_any_century_are_dates(latest: str) -> None:
    """Nanoseconds in 64 bits tell the years 1677 to 2262 alone."""
    table = pd.DataFrame({"born": ["1000-03-08 04:07:49", "1969-12-31", latest]})
    encoder = fitted(table)
    assert encoder.columns[0].kind == "date"
    day = encoder.inputs(table)[:, 0]
    assert day[0] < day[1] < day[2]


def test_truth_as_text_is_boolean() -> None:
    table = pd.DataFrame({"member": ["True", "false", None]})
    assert fitted(table).inputs(table).tolist() == [[1, 0], [0, 0], [0.5, 1]]


def test_very_many_categories_are_hashed_the_same_way_everywhere() -> None:
    table = pd.DataFrame({"zip": [f"z{number}" for number in range(600)] * 2})
    encoder = fitted(table)
    assert encoder.width == BUCKETS
    x = encoder.inputs(table)
    assert (x.sum(axis=1) == 1).all()
    assert x[0].argmax() == 120  # of 'z0', in every process
    assert "zip (600)" in encoder.notes[0]


def test_values_that_all_differ_are_left_out() -> None:
    table = pd.DataFrame(
        {
            "id": [f"z{number}" for number in range(600)],
            "customer": range(2000, 2600),
            "income": [37 * number for number in range(600)],  # of a wide range
            "age": [20 + number % 60 for number in range(600)],
        }
    )
    encoder = fitted(table)
    assert encoder.width == 2
    told = "columns whose values all differ, left out: they identify rows: id, customer"
    assert encoder.notes == (told,)
    assert fitted(table[:50]).columns[1].kind == "number"  # so few may differ by chance


def test_dates_may_be_written_with_dots() -> None:
    iso = ["2024-05-31", "1999-12-01", "2001-02-03 04:05"]
    dotted = ["31.05.2024", "01.12.1999", "03.02.2001 04:05"]
    one, other = (fitted(pd.DataFrame({"born": days * 8})) for days in (iso, dotted))
    assert one == other
    assert one.columns[0].kind == "date"


def test_blanks_around_texts_do_not_count() -> None:
    table = pd.DataFrame({"job": ["cook ", "cook", " baker"]})
    assert fitted(table).inputs(table).tolist() == [[0, 1], [0, 1], [1, 0]]


def test_other_tables_are_checked() -> None:
    table = pd.DataFrame({"age": [1, 2, 3], "job": ["a", "b", "a"], "ok": [True, False, True]})
    encoder = fitted(table)
    other = pd.DataFrame({"age": [1, np.nan], "job": ["c", None], "ok": [True, True]})
    notes = encoder.check(other)
    assert len(notes) == 3
    assert "'age' has 1 missing" in notes[0]
    assert "median" in notes[0]
    assert "'c'" in " ".join(notes)
    assert encoder.inputs(other)[:, 2:].tolist() == [[0, 0], [0, 0]]
    with pytest.raises(DataError, match="no column 'ok'") as caught:
        encoder.check(pd.DataFrame({"age": ["1", "old"], "job": ["a", "b"]}))
    assert "1 value(s) that are not numbers, such as 'old', in row 2" in str(caught.value)


def test_an_encoder_is_kept_without_pickle() -> None:
    table = pd.DataFrame({"age": [1.5, None], "job": ["a", "é\n|"], "day": ["2020-01-01", None]})
    encoder = fitted(table)
    again = unpack(pack(encoder))
    assert again == encoder
    np.testing.assert_array_equal(again.inputs(table), encoder.inputs(table))


def test_unusable_columns_are_named() -> None:
    assert feature_mistakes(pd.Series([None, None], name="a"))
    assert "infinite" in feature_mistakes(pd.Series([1.0, np.inf], name="a"))[0]
    long = pd.Series([f"{number} {'word ' * 20}" for number in range(600)], name="bio")
    assert "`text`" in feature_mistakes(long)[0]


def test_dates_with_a_time_and_a_zone_are_dates() -> None:
    hours = [f"2024-05-31 {hour:02}:00:00" for hour in range(24)]
    for texts in (
        hours,
        [f"{text}.000000" for text in hours],
        [f"{text.replace(' ', 'T')}+00:00" for text in hours],
        pd.to_datetime(hours).tz_localize("UTC").tz_convert("Asia/Tokyo"),
    ):
        encoder = fitted(pd.DataFrame({"when": texts}))
        assert encoder.columns[0].kind == "date"
        x = encoder.inputs(
            pd.DataFrame({"when": ["2024-05-31", "2024-05-31T12:00Z", "2024-06-01"]})
        )
        np.testing.assert_allclose(x[1, 0] - x[0, 0], x[2, 0] - x[1, 0], rtol=1e-6)
    # A day that no month has is no date.
    assert (
        fitted(pd.DataFrame({"when": ["2024-02-30", "2024-02-28"]})).columns[0].kind == "category"
    )


def test_numbers_among_categories_are_the_same_whatever_their_type() -> None:
    encoder = fitted(pd.DataFrame({"code": pd.Series([1, 2, "x"], dtype=object)}))
    for codes in ([1, 2, None], [1.0, 2.0, None], ["1", " 2", None]):
        found = encoder.inputs(pd.DataFrame({"code": codes}))
        assert found.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_a_column_of_booleans_takes_no_other_numbers() -> None:
    encoder = fitted(pd.DataFrame({"there": [True, False, True]}))
    assert encoder.check(pd.DataFrame({"there": [0, 1, 1]})) == []
    with pytest.raises(DataError, match="not true or false, such as '7'"):
        encoder.check(pd.DataFrame({"there": [0, 1, 7]}))


def test_columns_of_categories_are_categories() -> None:
    column = fitted(pd.DataFrame({"ward": pd.Categorical([3, 1, 3])})).columns[0]
    assert (column.kind, column.levels) == ("category", ("1", "3"))


def test_columns_of_other_types_are_named() -> None:
    for values in ([[1], [2]], pd.to_timedelta([1, 2], unit="h"), np.array([1j, 2])):
        (mistake,) = feature_mistakes(pd.Series(values, name="odd"))
        assert mistake.startswith("column 'odd' is of type ")


def test_new_categories_are_named_as_far_as_they_are_few() -> None:
    encoder = fitted(pd.DataFrame({"town": ["Rome", "Oslo"] * 20}))
    rows = 3 * MAX_NEW
    many = pd.DataFrame({"town": [f"town {n}" for n in range(rows)] * 2})
    whole = encoder.new_values(many)
    assert len(whole.names["town"]) <= MAX_NEW + 1
    (note,) = encoder.notes_on(whole)
    assert f"in {2 * rows} row(s): 'town 0', 'town 1'" in note
    assert f" and {MAX_NEW - 4} more at least;" in note
    # In parts, too: it does not matter where they end.
    found = NewValues()
    for part in np.array_split(np.arange(len(many)), 7):
        found.update(encoder.new_values(many.iloc[part]))
    assert found == whole
    # As many as are kept are counted to the last.
    (note,) = encoder.check(many[:MAX_NEW])
    assert f" and {MAX_NEW - 5} more;" in note
