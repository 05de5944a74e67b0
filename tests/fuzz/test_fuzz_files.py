"""Files that somebody has damaged, edited or written to do harm work, or end in
propcal's own errors.

Every case is drawn from its own seed: what fails is repeated by its kind and number.
"""

import json
import random
import warnings
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_values import EVERYTHING, NUMBERS, TEXTS, broken_bytes, mutated
from valid_files import (
    NAMED,
    correction_content,
    people,
    saved_atoms,
    use_atoms,
    use_correction,
    write_atoms,
)

from propcal import Atoms, Correction, PMCBoost
from propcal.cli import main
from propcal.errors import FileFormatError, InputError

CASES = {
    "correction": 700,
    "correction bytes": 450,
    "atoms": 450,
    "atoms bytes": 250,
    "config": 50,
    "config bytes": 20,
    "csv": 20,
    "csv bytes": 20,
    "parquet": 25,
    "parquet bytes": 15,
}
SLOWLY = 10  # times as many


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """The valid files."""
    folder = tmp_path_factory.mktemp("valid")
    rows = people()
    rows.to_csv(folder / "people.csv", index=False)
    rows.to_parquet(folder / "people.parquet")
    fitted = PMCBoost(groups=NAMED["groups"], alpha=0.2)
    columns = rows[["race", "sex", "age", "ill"]]
    return {
        "correction": correction_content(),
        "atoms": [
            saved_atoms(weighted, folder / "x.atoms") for weighted in (False, True)
        ],
        "atoms bytes": (folder / "x.atoms").read_bytes(),
        "config": CONFIG,
        "csv": (folder / "people.csv").read_text(),
        "parquet": pq.read_table(folder / "people.parquet").replace_schema_metadata(
            None
        ),
        "parquet bytes": (folder / "people.parquet").read_bytes(),
        "model": fitted.fit(
            rows["risk"], rows["y"], sensitive_features=columns
        ).correction_,
    }


CONFIG = {
    "score": "risk",
    "outcome": "y",
    "groups": ["race", "sex"],
    "alpha": 0.1,
    "gamma": 0.05,
    "na": ["NA", "-"],
    "cut": {"age": [18, 65]},
    "where": {"old": "age >= 75"},
    "intersections": "all",
    "resolution": "2^-10",
    "memory": "1GB",
    "audit": {
        "draws": 10,
        "n_bins": 5,
        "rho": 0.1,
        "fail_on": ["pmc > 0.2"],
        "suppress": 5,
        "seed": 1,
    },
    "fit": {"max_updates": 100, "guard": "noise"},
    "apply": {"column": "corrected"},
}


@contextmanager
def works_or_is_refused(counts):
    """Anything but propcal's own errors fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        refusal = None
        try:
            yield
        except (InputError, FileFormatError) as error:
            refusal = str(error)
        counts["fine" if refusal is None else "refused"] += 1
        assert refusal is None or refusal.isprintable()


def dumped(content):
    """JSON as an attacker writes it: also NaN, long numbers, halves of surrogate
    pairs.
    """
    return json.dumps(content, ensure_ascii=True).encode()


def correction(material, rng, path):
    use_correction(dumped(mutated(material["correction"], rng)), path)


def correction_bytes(material, rng, path):
    use_correction(broken_bytes(dumped(material["correction"]), rng), path)


def atoms(material, rng, path):
    table, header = rng.choice(material["atoms"])
    if rng.random() < 0.3:
        header = mutated(header, rng)
    else:
        table = changed_table(table, rng)
    write_atoms(table, header, path)
    use_atoms(path)


def atoms_bytes(material, rng, path):
    path.write_bytes(broken_bytes(material["atoms bytes"], rng))
    use_atoms(path)


def changed_table(table, rng):
    """One column dropped, doubled, moved, retyped, or with cells that should not be
    there.
    """
    place = rng.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    kind = rng.randrange(8)
    if kind == 0:
        return table.remove_column(place)
    if kind == 1:
        return table.append_column(rng.choice([name, "more", ""]), column)
    if kind == 2:
        return (
            table.slice(0, rng.choice([0, 1, 2]))
            if rng.random() < 0.5
            else pa.concat_tables([table, table])
        )
    if kind == 3:
        return table.take(rng.sample(range(len(table)), len(table)))
    if kind == 4:
        others = [
            pa.string(),
            pa.int64(),
            pa.float64(),
            pa.float32(),
            pa.int8(),
            pa.bool_(),
            pa.null(),
        ]
        others += [
            pa.list_(pa.int64()),
            pa.struct([("a", pa.int64())]),
            pa.binary(),
            pa.date32(),
            pa.decimal128(9, 2),
        ]
        return table.set_column(place, name, pa.nulls(len(table), rng.choice(others)))
    if kind == 5:
        nest = rng.choice(
            [
                lambda v: [v],
                lambda v: {"a": v},
                lambda v: str(v).encode(),
                lambda v: str(v),
            ]
        )
        return table.set_column(
            place, name, pa.array([nest(v) for v in column.to_pylist()])
        )
    values = column.to_pylist()
    for _ in range(rng.choice([1, 1, 3])):
        values[rng.randrange(len(values))] = rng.choice(
            NUMBERS if kind == 6 else EVERYTHING
        )
    try:
        return table.set_column(place, name, pa.array(values, column.type))
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        cells = [
            v if v is None else str(v).encode("utf-8", "replace").decode()
            for v in values
        ]
        return table.set_column(place, name, pa.array(cells, pa.string()))


def toml(value, depth=0):
    """TOML of nested values, wrong ones too; what is nested deeply is nested more
    deeply still.
    """
    if depth > 20:
        return "[" * 900 + "]" * 900
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{json.dumps(str(k))} = {toml(v, depth + 1)}" for k, v in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(toml(part, depth + 1) for part in value) + "]"
    return (
        "2020-01-01"
        if value is None
        else json.dumps(value)
        if isinstance(value, str)
        else repr(value)
    )


def config(material, rng, path):
    content = mutated(material["config"], rng)
    text = "\n".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in content.items())
    run_config(text.encode("utf-8", "surrogatepass"), rng, path)


def config_bytes(material, rng, path):
    text = "\n".join(
        f"{key} = {toml(value)}" for key, value in material["config"].items()
    )
    run_config(broken_bytes(text.encode(), rng), rng, path)


def run_config(text, rng, path):
    """The command that reads it: all options are read, then the file of people is not
    found.
    """
    path.write_bytes(text)
    command = rng.choice(["audit", "fit", "atoms"])
    output = [] if command == "audit" else ["-o", str(path.with_name("never.json"))]
    with pytest.raises(SystemExit) as ended:
        main(
            [command, str(path.with_name("nobody.csv")), "--config", str(path), *output]
        )
    assert ended.value.code == 2
    raise FileFormatError("as it should")


def read_people(path, material, rng):
    made = Atoms.from_files(path, **NAMED, weight=rng.choice([None, "w"]))
    assert made.n_people > 0
    score_file(path, material["model"])


def score_file(path, model):
    from propcal.reading.file_source import open_people
    from propcal.scoring.files import score_files

    sources = open_people([path], advice="")
    score_files(
        model, [(sources, path.with_name("scored.csv"))], score="risk", column="new"
    )


def csv(material, rng, path):
    lines = [
        line.split(",")
        for line in material["csv"].splitlines()[: rng.choice([1, 2, 60])]
    ]
    gentle = (
        rng.random() < 0.6
    )  # cells of the first two columns alone, in quotes where need be
    for _ in range(rng.choice([1, 3, 10])):
        line = rng.choice(lines)
        if gentle and len(lines) > 1:
            cell = str(rng.choice([*TEXTS, *NUMBERS])).replace('"', '""')
            rng.choice(lines[1:])[rng.randrange(2)] = f'"{cell}"'
            continue
        at = rng.randrange(len(line))
        cells = [[], [line[at]] * 2, [str(rng.choice([*TEXTS, *NUMBERS]))[:2000]]]
        line[at : at + 1] = rng.choice(cells) if len(line) > 1 else cells[2]
    separator = rng.choice([",", ",", ";", "\t", "|"])
    text = "\n".join(separator.join(line) for line in lines)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    read_people(path, material, rng)


def csv_bytes(material, rng, path):
    path.write_bytes(broken_bytes(material["csv"].encode(), rng))
    read_people(path, material, rng)


def parquet(material, rng, path):
    pq.write_table(changed_table(material["parquet"], rng), path)
    read_people(path, material, rng)


def parquet_bytes(material, rng, path):
    path.write_bytes(broken_bytes(material["parquet bytes"], rng))
    read_people(path, material, rng)


def run_cases(kind, first, last, material, folder):
    case = globals()[kind.replace(" ", "_")]
    counts = {"fine": 0, "refused": 0}
    path = folder / "case"
    for number in range(first, last):
        rng = random.Random(f"{kind} {number}")
        try:
            with works_or_is_refused(counts):
                case(material, rng, path)
        except BaseException as error:
            error.add_note(f"case {number} of {kind!r}; the file is {path}")
            raise
    print(
        f"{kind}: {last - first:,} cases, {counts['fine']:,} fine, {counts['refused']:,} refused"
    )
    return counts


@pytest.mark.parametrize("kind", CASES)
def test_a_changed_file_works_or_is_refused(kind, material, tmp_path, capfd):
    counts = run_cases(kind, 0, CASES[kind], material, tmp_path)
    assert counts["refused"] > CASES[kind] // 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_many_changed_files_work_or_are_refused(kind, material, tmp_path):
    run_cases(kind, CASES[kind], CASES[kind] * (1 + SLOWLY), material, tmp_path)


def test_two_thousand_cases_in_the_suite_and_twenty_thousand_in_the_slow_one():
    assert sum(CASES.values()) == 2_000
    assert SLOWLY * sum(CASES.values()) == 20_000


def test_the_files_that_are_changed_are_valid(material, tmp_path):
    use_correction(dumped(material["correction"]), tmp_path / "model.json")
    for table, header in material["atoms"]:
        write_atoms(table, header, tmp_path / "x.atoms")
        use_atoms(tmp_path / "x.atoms")
    (tmp_path / "people.csv").write_text(material["csv"])
    read_people(tmp_path / "people.csv", material, random.Random(0))
    pq.write_table(material["parquet"], tmp_path / "people.parquet")
    read_people(tmp_path / "people.parquet", material, random.Random(0))
    assert np.isfinite(
        Correction.from_json(material["model"].to_json()).apply([0.5], people(1))
    ).all()
