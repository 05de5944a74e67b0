"""The experiments are a distribution of their own, which keeps the project's rules."""

import ast
import re
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import typer

import propcal
import propcal_paper
from as_installed import PAPER
from propcal import building_blocks
from propcal.cli.commands_from_records import as_flag
from propcal.core.arguments import check_number
from propcal.errors import Argument, InputError
from propcal_paper.commands import app
from propcal_paper.errors import refused

SOURCES = sorted((PAPER / "src").rglob("*.py"))
LIBRARY = sorted((PAPER.parent / "src" / "propcal").rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in SOURCES}
PUBLIC = {"propcal", "propcal.building_blocks"}
# arguments that errors mention and no command has an option for
PYTHON_ONLY = {"delta", "eta", "kept_apart", "readings"}


def imported(tree):
    """The modules and names of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            yield from ((node.module, alias.name) for alias in node.names)


def test_nothing_of_propcal_is_imported_but_public_names_and_building_blocks():
    used = set()
    for path, tree in TREES.items():
        for module, name in imported(tree):
            if module.split(".")[0] == "propcal":
                assert module in PUBLIC, f"{path.name}: {module}.{name}"
                offered = propcal if module == "propcal" else building_blocks
                assert name in offered.__all__, f"{path.name}: {module}.{name}"
                used.add(name)
    assert set(building_blocks.__all__) <= used, "nobody needs these names"


def test_building_blocks_are_what_a_type_checker_sees():
    (block,) = (
        node
        for node in ast.parse(Path(building_blocks.__file__).read_text()).body
        if isinstance(node, ast.If)
    )
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert seen == building_blocks._HOME
    for name in building_blocks.__all__:
        assert getattr(building_blocks, name) is not None
    assert dir(building_blocks) == building_blocks.__all__
    with pytest.raises(AttributeError, match="no attribute 'bricks'"):
        _ = building_blocks.bricks


def test_modules_do_not_import_each_other_in_a_circle():
    modules = {
        ".".join(path.relative_to(PAPER / "src").with_suffix("").parts): tree
        for path, tree in TREES.items()
    }
    graph = {}
    for own, tree in modules.items():
        names = {module for module, _ in imported(tree)}
        names |= {f"{module}.{name}" for module, name in imported(tree)}
        graph[own] = names & modules.keys()
        if own.startswith("propcal_paper.running."):  # results come later
            assert not any(name.startswith("propcal_paper.results") for name in names)
    TopologicalSorter(graph).prepare()


def test_a_folder_has_at_most_twenty_modules():
    folders = Counter(path.parent for path in SOURCES if path.stem != "__init__")
    assert max(folders.values()) <= 20


def test_names_of_classes_are_unique_over_both_distributions():
    classes = Counter(
        node.name
        for path in [*SOURCES, *LIBRARY]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    ours = {
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert [name for name in ours if classes[name] > 1] == []


def test_the_package_has_the_version_of_propcal():
    project = tomllib.loads((PAPER / "pyproject.toml").read_text())["project"]
    assert project["version"] == propcal.__version__
    assert f"propcal>={propcal.__version__}" in project["dependencies"]
    assert propcal_paper.__doc__


def test_every_error_of_the_table_is_used_and_can_be_told():
    folder = PAPER / "src" / "propcal_paper"
    table = tomllib.loads((folder / "errors.toml").read_text())
    texts = [path.read_text() for path in SOURCES]
    for key, entry in table.items():
        assert any(f'"{key}"' in text for text in texts), key
        values = {
            name: 1 for text in entry.values() for name in re.findall(r"{(\w+)", text)
        }
        message = refused(key, **values).message
        assert not re.search("{[a-z]", message)
        assert "@" not in message


def options(command):
    inner = getattr(command, "commands", {}).values()
    own = {name for parameter in command.params for name in parameter.opts}
    return own.union(*(options(each) for each in inner))


def mentioned():
    """The arguments that errors of the experiments mention."""
    table = (PAPER / "src" / "propcal_paper" / "errors.toml").read_text()
    names = {*re.findall(r"@(\w+)", table)}
    for tree in TREES.values():
        for node in ast.walk(tree):
            called = isinstance(node, ast.Call) and ast.unparse(node.func)
            if called in ("check_number", "check_choice"):
                first = node.args[0]
                names |= {first.value} if isinstance(first, ast.Constant) else set()
    return names


def test_an_argument_that_an_error_mentions_is_called_by_its_option():
    known = options(typer.main.get_command(app))
    names = mentioned()
    assert names >= {"alpha", "models", "rows", *PYTHON_ONLY}
    for name in names:
        written = as_flag(Argument(name)).removeprefix("--")
        assert (f"--{written}" in known) == (name not in PYTHON_ONLY), name
    for name, option in (("n_data_sets", "--data-sets"), ("rows", "--rows")):
        with pytest.raises(InputError) as found:
            check_number(name, 0, at_least=1)
        assert found.value.render(as_flag).startswith(f"{option} must be")
