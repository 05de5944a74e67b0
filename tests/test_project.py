"""The project keeps its own rules."""

import ast
import importlib
import importlib.util
import re
import tomllib
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

import propcal
from paths import ROOT

SOURCE = ROOT / "src" / "propcal"
SOURCES = sorted(SOURCE.rglob("*.py"))
# the experiments of the paper, a distribution of their own
PAPER = ROOT / "paper" / "src" / "propcal_paper"
PAPER_SOURCES = sorted(PAPER.rglob("*.py"))
EVERY_SOURCE = [*SOURCES, *PAPER_SOURCES]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# the way data takes, from top to bottom; a module imports only from its own layer or
# one above
LAYERS = [
    "extras",
    "errors",
    "numbers",
    "interrupts",
    "core",
    "options",
    "datasets",
    "reading",
    "metrics",
    "auditing",
    "discovery",
    "estimators",
    "classifier",
    "monitoring",
    "sites",
    "protect",
    "formats",
    "scoring",
    "export",
    "documents",
    "render",
    "displays",
    "cli",
    "building_blocks",
]
# Methods that users look for on a class, though what they call comes later: it is
# imported when they are called. By module and layer, with the reason.
DOORS = {
    ("core.atoms", "reading"): "Atoms.from_frame and from_files read people",
    ("core.atoms", "formats"): "Atoms.save and load",
    ("core.atoms", "protect"): "Atoms.share",
    (
        "core.fit.boost",
        "protect",
    ): "a fit counts the people behind each number that may be shared",
    ("core.groups", "reading"): "Groups.preview and from_masks read people",
    (
        "core.correction.definition",
        "protect",
    ): "the type of what a fit knows about sharing",
    (
        "core.correction.correction",
        "reading",
    ): "Correction.apply and explain read people",
    ("core.correction.correction", "scoring"): "Correction.apply and score_one",
    (
        "core.correction.correction",
        "formats",
    ): "Correction.save, load, to_json, from_json, model_id",
    ("core.correction.correction", "export"): "Correction.to_sql and to_code",
    ("monitoring.monitor", "formats"): "Monitor.save and load",
}
# Results print themselves: to_html, to_json, plot, sentences, in a terminal and a
# notebook. Findings carry notes on their data, which are sentences.
RESULTS = {
    "core.correction.correction",
    "core.correction.explain",
    "core.correction.fit_summary",
    "core.correction.points_table",
    "auditing.audit",
    "auditing.compare",
    "auditing.printable_results",
    "discovery.discovery",
    "discovery.protected_groups",
    "monitoring.course",
    "monitoring.findings",
    "monitoring.held_out",
    "sites.compare_sites",
    "sites.site_findings",
}
# Modules of one layer of which each needs the other, one of them when it is called.
INSIDE = {
    ("propcal.core.atoms", "propcal.core.reduction"): "Atoms are added up",
    (
        "propcal.reading.source",
        "propcal.reading.engine_frames",
    ): "an engine reduces its own frames",
}
SHOWN = {"protect", "documents", "render"}


def module_of(path):
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def layer(module):
    """The layer of a module; none for propcal itself."""
    part = module.removeprefix("propcal.").split(".")[0]
    return part if part in LAYERS else None


def imported(node):
    """The modules of propcal that one statement imports; a public name counts as the
    module it lives in.
    """
    if isinstance(node, ast.Import):
        return [
            "propcal.cli" if alias.name == "propcal" else alias.name
            for alias in node.names
        ]
    names = [f"{node.module}.{alias.name}" for alias in node.names]
    homes = {
        f"propcal.{name}": home
        for name, home in (propcal._HOME | propcal._MODULES).items()
    }
    return [name if name in MODULES else homes.get(name, node.module) for name in names]


def imports(path):
    """Every import of a module of propcal, and when it happens: "at once", "lazily" or
    "for types".
    """

    def walk(node, when):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from walk(child, "lazily")
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(
                child.test
            ):
                yield from walk(child, "for types")
            elif isinstance(child, ast.Import | ast.ImportFrom):
                assert not getattr(child, "level", 0), (
                    f"{path.name} has a relative import"
                )
                if path.parent.name == "cli" and ast.unparse(child) == "import propcal":
                    # the last layer takes public names, each of which is imported when
                    # it is used
                    continue
                name = (
                    child.module
                    if isinstance(child, ast.ImportFrom)
                    else child.names[0].name
                )
                if name.split(".")[0] == "propcal":
                    yield from ((target, when) for target in imported(child))
            else:
                yield from walk(child, when)

    return list(walk(ast.parse(path.read_text()), "at once"))


IMPORTS = {module: imports(path) for module, path in MODULES.items()}


def test_imports_point_upwards_except_through_the_doors():
    used = set()
    for module, targets in IMPORTS.items():
        own = layer(module)
        for target, when in targets:
            other = layer(target)
            if own is None or other is None or LAYERS.index(other) <= LAYERS.index(own):
                continue
            door = (module.removeprefix("propcal."), other)
            assert when != "at once", f"{module} imports {target}, which comes after it"
            if door[0] in RESULTS and other in SHOWN:
                continue
            assert door in DOORS, (
                f"{module} imports {target} {when}, and is no door in the table"
            )
            used.add(door)
    assert used == set(DOORS), "a door of the table is not used any more: take it out"


def test_folders_do_not_import_each_other_in_a_circle():
    """Of the folders in one folder, by what is imported at once."""
    graphs = defaultdict(lambda: defaultdict(set))
    for module, targets in IMPORTS.items():
        for target, when in targets:
            mine, theirs = module.split("."), target.split(".")
            shared = next(
                (i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), None
            )
            if when != "at once" or shared is None:
                continue
            parent = ".".join(mine[:shared])
            children = mine[shared], theirs[shared]
            if all(
                MODULES[f"{parent}.{child}"].name == "__init__.py" for child in children
            ):
                graphs[parent][children[0]].add(children[1])
    assert {"propcal", "propcal.core"} <= set(graphs)
    for parent, graph in graphs.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            raise AssertionError(
                f"folders of {parent} import each other: {error.args[1]}"
            ) from None


def test_modules_do_not_import_each_other_in_a_circle():
    at_once = {
        m: {t for t, when in found if when == "at once"} - {m}
        for m, found in IMPORTS.items()
    }
    TopologicalSorter(at_once).prepare()


def test_nor_does_any_function_of_theirs_except_through_the_doors():
    def is_door(module, target):
        own, other = layer(module), layer(target)
        name = module.removeprefix("propcal.")
        later = own and other and LAYERS.index(other) > LAYERS.index(own)
        return (later and ((name, other) in DOORS or name in RESULTS)) or (
            module,
            target,
        ) in INSIDE

    ever = {
        module: {
            target
            for target, when in found
            if when != "for types" and not is_door(module, target)
        }
        for module, found in IMPORTS.items()
    }
    TopologicalSorter(
        {module: targets - {module} for module, targets in ever.items()}
    ).prepare()


def annotations_of(module, name):
    """The annotations of arguments and results of a function, or of the public methods
    of a class.
    """
    (node,) = [
        n
        for n in ast.parse(MODULES[module].read_text()).body
        if getattr(n, "name", "") == name
    ]
    methods = (
        [node]
        if isinstance(node, ast.FunctionDef)
        else [n for n in node.body if hasattr(n, "args")]
    )
    for method in methods:
        if (
            method is node
            or not method.name.startswith("_")
            or method.name == "__init__"
        ):
            every = [n for n in ast.walk(method.args) if isinstance(n, ast.arg)]
            for one in (*(arg.annotation for arg in every), method.returns):
                yield method.name, "" if one is None else ast.unparse(one)


def test_public_signatures_say_what_they_accept():
    """`Any` stands only for the values of JSON, in a dict."""
    for name in propcal._HOME:
        thing = getattr(propcal, name)
        kinds = thing.__mro__ if isinstance(thing, type) else [thing]
        for kind in kinds:
            if kind.__module__ in MODULES:
                for method, text in annotations_of(kind.__module__, kind.__name__):
                    assert not re.search(r"(?<!str, )\bAny\b", text), (
                        f"{name}.{method}: {text}"
                    )


def test_no_module_imports_a_private_name_of_another():
    for path in EVERY_SOURCE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                private = [
                    name.name
                    for name in node.names
                    if name.name.startswith("_") and name.name[1] != "_"
                ]
                assert not private, f"{path.name}: {private}"


def test_every_module_says_in_one_line_what_it_is():
    for path in EVERY_SOURCE:
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
        assert first.endswith((".", "?")), f"{path.name}: {first!r}"


def test_the_map_of_the_modules_has_a_line_for_each():
    spec = importlib.util.spec_from_file_location(
        "module_map", ROOT / "docs" / "module_map.py"
    )
    module_map = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module_map)
    lines = [
        line.split()[0]
        for line in module_map.page().splitlines()
        if line.startswith("  ")
    ]
    assert sorted(lines) == sorted(
        path.stem for path in EVERY_SOURCE if path.name != "__init__.py"
    )


def test_contributing_names_every_folder():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for path in SOURCES:
        if path.name == "__init__.py" and path.parent != SOURCE:
            assert f"`{path.parent.name}/`" in text, path.parent
        elif path.parent == SOURCE and not path.stem.startswith("__"):
            assert f"`{path.stem}`" in text, path


def test_code_that_the_documentation_names_exists():
    for page in PAGES:
        text = page.read_text()
        for name in re.findall(r"(?<![\w/.-])((?:\w+/)+\w+\.py)\b", text):
            inside = SOURCE / name.removeprefix("src/propcal/")
            places = [inside, ROOT / name, PAPER.parent / name]
            assert any(place.exists() for place in places), f"{page.name}: {name}"
        for name in re.findall(
            r"(?<![\w/.-])propcal(?:_paper)?(?:\.[a-z]\w*)+(?:\.[A-Z]\w*)?", text
        ):
            if name != "propcal.toml":
                _find(name)


def _find(name):
    """A module, or something in one."""
    found, *rest = name.split(".")
    module = importlib.import_module(found)
    for part in rest:
        if hasattr(module, part):
            module = getattr(module, part)
        else:
            module = importlib.import_module(f"{module.__name__}.{part}")


def test_few_modules_know_data_frames():
    """One door for frames in memory, one for engines, and what engines compute."""
    imports = re.compile(r'import narwhals|Later\("narwhals')
    users = [path.name for path in SOURCES if imports.search(path.read_text())]
    assert users == ["engine_expressions.py", "engine_frames.py", "frames.py"]


def test_every_extra_named_in_a_message_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for path in EVERY_SOURCE:
        for extra in re.findall(
            r"(?:propcal\[|how_to_install\([\"'])(\w+)", path.read_text()
        ):
            assert extra in extras, path.name


def test_every_dependency_has_a_lowest_version():
    # make test-lowest puts == in place of >=
    project, of_paper = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for folder in (ROOT, ROOT / "paper")
    )
    extras = [
        wanted
        for extra in project["optional-dependencies"].values()
        for wanted in extra
    ]
    for wanted in project["dependencies"] + extras + of_paper["dependencies"]:
        assert re.fullmatch(
            r"[a-z0-9-]+(\[[a-z,]+\])?>=[0-9]+(\.[0-9]+)*(\.dev0)?", wanted
        ), wanted


def test_the_version_is_the_same_everywhere():
    for folder in (ROOT, ROOT / "paper"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["version"] == propcal.__version__
    release = propcal.__version__.removesuffix(".dev0")
    assert f"## {release}" in (ROOT / "CHANGELOG.md").read_text()


def test_links_in_the_documentation_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith(("http", "mailto")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
