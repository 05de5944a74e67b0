"""The project keeps its own rules."""

import ast
import re
import tomllib

from paths import ROOT

SOURCES = sorted((ROOT / "src" / "propcal").rglob("*.py"))
# the way data takes, from top to bottom; a module imports only from its own layer or one above
LAYERS = [
    "errors",
    "interrupts",
    "core",
    "data",
    "metrics",
    "auditing",
    "estimators",
    "classifier",
    "disclosure",
    "output",
    "displays",
    "paper",
    "cli",
]


def layer(module):
    part = module.removeprefix("propcal.").split(".")[0]
    return LAYERS.index(part) if part in LAYERS else None


def test_imports_point_upwards():
    for path in SOURCES:
        module = "propcal." + ".".join(path.relative_to(ROOT / "src" / "propcal").with_suffix("").parts)
        own = layer(module)
        if own is None:
            continue
        tree = ast.parse(path.read_text())
        for node in tree.body:  # top level: doors open lazily inside functions
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("propcal."):
                assert layer(node.module) <= own, f"{path.name} imports {node.module}"


def test_few_modules_know_data_frames():
    """One door for frames in memory, one for engines, and what engines compute."""
    users = [
        path.name
        for path in SOURCES
        if "narwhals" in path.read_text() and "import narwhals" in path.read_text()
    ]
    assert users == ["expressions.py", "frames_to_atoms.py", "frames.py"]


def test_every_extra_named_in_a_message_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in SOURCES:
        for extra in re.findall(r"propcal\[(\w+)\]", path.read_text()):
            assert extra in extras, path.name


def test_the_version_is_the_same_everywhere():
    import propcal

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == propcal.__version__
    assert f"## {propcal.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_links_in_the_documentation_lead_somewhere():
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith(("http", "mailto")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
