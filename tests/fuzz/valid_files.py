"""Small valid files of each kind, and what is done with one that was changed."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from propcal import Atoms, Correction, Groups, PMCBoost
from propcal.core.categories import mc_of
from propcal.formats.atoms_file import atoms_of_table
from propcal.metrics import CategoryRule

GROUPS = Groups(
    columns=["race", "sex"],
    cuts={"age": [40, 65]},
    where={"old or ill": "age >= 75 or (ill and not sex = M)"},
)


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "race": rng.choice(["A", "B", None], n),
            "sex": rng.choice(["F", "M"], n),
            "age": rng.integers(18, 95, n),
            "ill": rng.random(n) < 0.3,
            "risk": rng.beta(1.5, 4, n).round(3),
            "y": rng.integers(0, 2, n),
            "w": rng.gamma(2, 1, n).round(2) + 0.01,
        }
    )


NAMED = {"score": "risk", "outcome": "y", "groups": GROUPS}


def correction_content():
    """A correction with a smooth start and updates, as its file has it."""
    rows = people()
    columns = rows[["race", "sex", "age", "ill"]]
    fitted = PMCBoost.paper(groups=GROUPS, alpha=0.1).fit(
        rows["risk"], rows["y"], sensitive_features=columns
    )
    content = json.loads(fitted.correction_.to_json())
    del content["about"]["model_id"]  # or no change would get any further
    content["start"] = [[[], [1000] * 193], [[["sex", "F"]], [-50_000] * 193]]
    return content


def use_correction(text, path):
    """Load it from a file, look at it, score with it, explain, and write it again."""
    path.write_bytes(text)
    correction = Correction.load(path)
    repr(correction)
    rows = people(5, seed=1).reindex(columns=list(correction.reads))
    score = np.linspace(0, 1, len(rows))
    columns = {name: rows[name] for name in correction.reads}
    scores = correction.apply(score, columns)
    assert np.all((scores >= 0) & (scores <= 1))
    repr(correction.explain(score, columns))
    assert Correction.from_json(correction.to_json()).to_json() == correction.to_json()


def saved_atoms(weighted, path):
    """A file of atoms: its table and its header."""
    Atoms.from_frame(
        people(), **NAMED, weight="w" if weighted else None, resolution=2**-6
    ).save(path)
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"propcal"])
    return table.replace_schema_metadata(None), header


def use_atoms(path):
    """Load, look at it, add it to itself; take the loss of it if it is small."""
    atoms = Atoms.load(path)
    repr(atoms)
    assert len(atoms + atoms) == len(atoms)
    assert 0 < atoms.n_people < 2**31
    if atoms.n_people < 1_000 and len(atoms.patterns) < 50:
        assert 0 <= mc_of(CategoryRule(gamma=0.001, alpha=0.001).table(atoms)) <= 1


def write_atoms(table, header, path):
    """Write a table with a header; its fingerprint is made right, as whoever means harm
    would do.
    """
    try:
        texts = {
            f.name: pa.dictionary(pa.int32(), pa.string())
            for f in table.schema
            if f.name.startswith("attr")
        }
        kinds = pa.schema([(f.name, texts.get(f.name, f.type)) for f in table.schema])
        header = {
            **header,
            "fingerprint": atoms_of_table(table.cast(kinds), header).fingerprint(),
        }
    except Exception:  # such a table is refused for something else
        pass
    pq.write_table(table.replace_schema_metadata({"propcal": json.dumps(header)}), path)
