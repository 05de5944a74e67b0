"""The schemas of JSON outputs come with the package, and say which version they are
of.
"""

import json
import subprocess
import sys
import zipfile
from importlib.resources import files

import jsonschema
import pyarrow.parquet as pq
import pytest

from paths import ROOT
from propcal import Atoms, PMCBoost, audit
from propcal.core.bins import MOST_BINS
from propcal.core.correction.points_table import MOST_POINTS
from propcal.core.correction.smooth_map import MOST_WITH_ENDS, N_INNER
from propcal.core.grid import MAX_PEOPLE, UNIT
from propcal.formats.atoms_file import ATOMS_VERSION
from propcal.formats.correction_content import CORRECTION_VERSION

NAMES = ("audit", "apply", "correction", "atoms")


def schema(name):
    return json.loads(
        (files("propcal") / "schemas" / f"{name}.schema.json").read_text()
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_has_an_id(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$id"].startswith(f"urn:propcal:schema:{name}:")


def test_the_version_of_an_id_is_that_of_the_output(cohort):
    said = json.loads(audit(cohort.y, cohort.score, n_draws=100).to_json())
    assert schema("audit")["$id"].endswith(f":{said['version']}")
    jsonschema.validate(said, schema("audit"))
    assert schema("correction")["$id"].endswith(f":{CORRECTION_VERSION}")
    fitted = PMCBoost.paper().fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )
    content = json.loads(fitted.correction_.to_json())
    jsonschema.validate(content, schema("correction"))
    alert = cohort.score.where(
        cohort.score < 0.5, 1.0
    )  # scores of exactly 1 get a level of their own
    ends = json.loads(PMCBoost().fit(alert, cohort.y).correction_.to_json())
    assert ends["version"] == CORRECTION_VERSION
    jsonschema.validate(ends, schema("correction"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content | {"monotone": 1}, schema("correction"))


def test_the_header_of_atoms_fits_its_schema(tmp_path, cohort):
    frame = cohort[["race", "gender"]].assign(risk=cohort.score, died=cohort.y)
    atoms = Atoms.from_frame(
        frame, score="risk", outcome="died", groups=["race", "gender"]
    )
    atoms.save(tmp_path / "x.atoms")
    header = json.loads(pq.read_schema(tmp_path / "x.atoms").metadata[b"propcal"])
    jsonschema.validate(header, schema("atoms"))
    assert schema("atoms")["$id"].endswith(f":{ATOMS_VERSION}")


def test_the_limits_in_the_schema_are_those_of_the_method():
    entries, points = (
        schema("correction")["properties"],
        schema("correction")["$defs"]["points"]["properties"],
    )
    assert entries["bins"]["properties"]["edges"]["maxItems"] == MOST_BINS + 2
    assert entries["bins"]["properties"]["edges"]["items"]["maximum"] == UNIT
    shifts = entries["start"]["items"]["prefixItems"][1]
    assert (shifts["maxItems"], shifts["items"]["maximum"]) == (N_INNER, MOST_WITH_ENDS)
    assert entries["ends"]["items"]["items"] == shifts["items"]
    assert (
        points["points"]["items"]["maximum"]
        == -points["other"]["minimum"]
        == MOST_POINTS
    )
    assert schema("atoms")["$defs"]["count"]["maximum"] == MAX_PEOPLE


@pytest.mark.slow
def test_the_wheel_has_the_schemas(tmp_path):
    pytest.importorskip("hatchling")
    words = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path),
    ]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = zipfile.ZipFile(wheel).namelist()
    assert {f"propcal/schemas/{name}.schema.json" for name in NAMES} <= {*inside}
