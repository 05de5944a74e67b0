"""What users may rely on, one test each."""

import subprocess
import sys

import numpy as np
import pytest

from propcal import Atoms, Correction, PMCBoost, pmc_loss


@pytest.fixture(scope="module")
def fitted(cohort):
    return PMCBoost().fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )


def test_a_person_scores_the_same_alone_or_in_a_batch(fitted, cohort):
    batch = fitted.predict(cohort.score, sensitive_features=cohort[["race", "gender"]])
    for i in range(0, 3000, 100):
        alone = fitted.predict(
            cohort.score[i : i + 1],
            sensitive_features=cohort[["race", "gender"]][i : i + 1],
        )
        assert alone[0] == batch[i]


def test_the_order_of_rows_does_not_matter(fitted, cohort):
    mixed = cohort.sample(frac=1, random_state=9)
    again = PMCBoost().fit(
        mixed.score, mixed.y, sensitive_features=mixed[["race", "gender"]]
    )
    assert again.correction_.to_json() == fitted.correction_.to_json()


def test_the_order_of_chunks_does_not_matter(fitted, cohort):
    def atoms(part):
        return Atoms.from_frame(
            part, score="score", outcome="y", groups=["race", "gender"]
        )

    parts = [atoms(cohort[i : i + 500]) for i in range(0, 3000, 500)]
    forwards, backwards = parts[0], parts[-1]
    for part in parts[1:]:
        forwards = forwards + part
    for part in parts[-2::-1]:
        backwards = part + backwards
    for whole in (forwards, backwards):
        assert (
            PMCBoost().fit_atoms(whole).correction_.to_json()
            == fitted.correction_.to_json()
        )


def test_a_saved_correction_scores_to_the_last_bit_as_the_fitted_one(
    fitted, cohort, tmp_path
):
    fitted.correction_.save(tmp_path / "model.json")
    frame = cohort[["race", "gender"]]
    loaded = Correction.load(tmp_path / "model.json").apply(cohort.score, frame)
    assert (
        loaded.tobytes()
        == fitted.predict(cohort.score, sensitive_features=frame).tobytes()
    )


def test_boosting_meets_alpha_on_every_large_enough_category(cohort):
    frame = cohort[["race", "gender"]]
    fitted = PMCBoost(guard=None, monotone=False).fit(
        cohort.score, cohort.y, sensitive_features=frame
    )
    corrected = fitted.predict(cohort.score, sensitive_features=frame)
    before = pmc_loss(cohort.y, cohort.score, sensitive_features=frame)
    assert (
        pmc_loss(cohort.y, corrected, sensitive_features=frame) <= 0.05 + 1e-8 < before
    )


def test_fitting_changes_no_input(cohort):
    score, y = cohort.score.to_numpy().copy(), cohort.y.to_numpy().copy()
    frame, before = cohort[["race", "gender"]].copy(), cohort[["race", "gender"]].copy()
    model = PMCBoost().fit(
        score, y, sensitive_features=frame, sample_weight=np.ones(3000)
    )
    model.predict(score, sensitive_features=frame)
    assert np.array_equal(score, cohort.score)
    assert np.array_equal(y, cohort.y)
    assert frame.equals(before)


def test_no_capacity_is_exceeded_in_a_long_run():
    """Small steps on few people cut the scale into many more segments than it began
    with.
    """
    rng = np.random.default_rng(0)
    group, score = rng.integers(0, 4, 400), rng.random(400)
    y = (rng.random(400) < score * (0.5 + group / 4)).astype(int)
    model = PMCBoost.paper(alpha=0.002, eta=0.05, gamma=0.01).fit(
        score, y, sensitive_features=group
    )
    assert model.converged_
    assert model.n_updates_ > 1000
    assert model.correction_.n_segments > 1000
    corrected = model.predict(score, sensitive_features=group)
    assert (
        pmc_loss(y, corrected, sensitive_features=group, alpha=0.002, gamma=0.01)
        <= 0.002 + 1e-7
    )


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_loads_numpy_at_most():
    loaded = python(
        "import sys, propcal; print(*{name.split('.')[0] for name in sys.modules})"
    ).split()
    heavy = {
        "sklearn",
        "scipy",
        "pandas",
        "pyarrow",
        "narwhals",
        "numba",
        "duckdb",
        "typer",
        "rich",
        "matplotlib",
        "polars",
    }
    assert not heavy & set(loaded)


def test_the_command_line_starts_without_the_heavy_libraries():
    loaded = python(
        "import sys, propcal.cli; print(*{name.split('.')[0] for name in sys.modules})"
    ).split()
    assert not {"sklearn", "scipy", "pandas", "numba"} & set(loaded)


def test_losses_do_not_compile_anything():
    loaded = python(
        "import sys; from propcal import pmc_loss; pmc_loss([0, 1], [.2, .8]); print(*sys.modules)"
    ).split()
    assert "numba" not in loaded


def test_public_names_resolve_and_are_listed():
    import propcal

    for name in propcal.__all__:
        assert getattr(propcal, name) is not None
    assert sorted(propcal.__all__) == dir(propcal)
    with pytest.raises(AttributeError, match="no attribute 'PMCBoast'"):
        propcal.PMCBoast  # noqa: B018


@pytest.mark.slow
def test_the_first_compilation_is_announced(tmp_path):
    code = (
        "from propcal import PMCBoost; import numpy as np; s = np.linspace(0, 1, 50);"
        "PMCBoost().fit(s, s > .5); PMCBoost().fit(s, s > .5)"
    )
    import os

    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert run.stderr.count("is compiling its code") == 1
    again = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert again.stderr == ""
