"""What a reader has to hold in mind: the size of statements, by folder.

Lines are not counted, because their number and width can be chosen. Syntax nodes and
statements are what they are.
"""

import ast
import tomllib
from collections import Counter, defaultdict

import pytest

from paths import ROOT

SOURCES = {
    "propcal": ROOT / "src" / "propcal",
    "propcal_paper": ROOT / "paper" / "src" / "propcal_paper",
}
NODES_A_STATEMENT = 12.5
NODES_A_STATEMENT_IN_KERNELS = 14.0
LARGE = 40  # nodes of a statement that is too much at once
# for 1,000 statements
MOST = {"large": 10, "conditional": 20, "comprehension": 45, "packed": 8}

ASSIGNING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_packed(node):
    """Whether it reads `a, b = x, y`."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def is_kernel(node):
    """Whether numba compiles this function."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any("compiled" in ast.unparse(one) for one in node.decorator_list)


def size(node):
    return sum(1 for _ in ast.walk(node))


def count(node, where, counts):
    """Add a node and all below it to the counts of its folder, or of its kernels."""
    if is_kernel(node):
        where = f"{where}, kernels"
    counter = counts[where]
    counter["nodes"] += 1
    counter["conditional"] += isinstance(node, ast.IfExp)
    counter["comprehension"] += isinstance(node, COMPREHENSIONS)
    if isinstance(node, ast.stmt) and not is_docstring(node):
        counter["statements"] += 1
        counter["large"] += isinstance(node, ASSIGNING) and size(node) > LARGE
        counter["packed"] += is_packed(node)
    for child in ast.iter_child_nodes(node):
        count(child, where, counts)


def modules():
    for source in SOURCES.values():
        yield from sorted(source.rglob("*.py"))


def folder_of(path):
    """The top folder of a module: "core", "propcal" for a module in none, or a package."""
    for package, source in SOURCES.items():
        if path.is_relative_to(source):
            parts = path.relative_to(source).parts
            in_folder = package == "propcal" and len(parts) > 1
            return parts[0] if in_folder else package
    raise AssertionError(path)


def counted():
    counts = defaultdict(Counter)
    for path in modules():
        count(ast.parse(path.read_text()), folder_of(path), counts)
    return counts


COUNTS = counted()


def test_counts_of_a_small_module():
    text = "def f(x):\n    '''Doc.'''\n    a, b = 1, 2\n    return [a if c else b for c in x]"
    counts = defaultdict(Counter)
    count(ast.parse(text), "here", counts)
    assert counts["here"]["statements"] == 3  # def, assignment, return
    assert counts["here"]["packed"] == 1
    assert counts["here"]["conditional"] == 1
    assert counts["here"]["comprehension"] == 1
    assert counts["here"]["nodes"] == size(ast.parse(text))


@pytest.mark.parametrize("folder", sorted(COUNTS))
def test_a_statement_says_one_thing(folder):
    counts = COUNTS[folder]
    kernel = folder.endswith(", kernels")
    limit = NODES_A_STATEMENT_IN_KERNELS if kernel else NODES_A_STATEMENT
    statements = max(counts["statements"], 1)
    assert counts["nodes"] / statements <= limit
    for kind, most in MOST.items():
        # a small folder may have one
        assert counts[kind] <= max(most * statements / 1000, 1), kind


def test_conditional_expressions_are_short_and_not_nested():
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.IfExp):
                continue
            where = f"{path.name}:{node.lineno}"
            inner = [one for one in ast.walk(node) if isinstance(one, ast.IfExp)]
            assert len(inner) == 1, f"{where}: one inside another"
            assert node.lineno == node.end_lineno, f"{where}: over several lines"


def test_comprehensions_with_a_condition_have_one_loop():
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, COMPREHENSIONS) and len(node.generators) > 1:
                conditions = [one for loop in node.generators for one in loop.ifs]
                assert not conditions, f"{path.name}:{node.lineno}"


def test_no_folder_outgrows_its_budget():
    """Growth is a decision: whoever needs more nodes changes the budget and says why."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    budget = project["tool"]["propcal"]["nodes"]
    nodes = Counter()
    for folder, counts in COUNTS.items():
        nodes[folder.removesuffix(", kernels")] += counts["nodes"]
    assert set(nodes) == set(budget)
    assert {name: n for name, n in nodes.items() if n > budget[name]} == {}


def test_no_folder_has_more_than_twenty_modules():
    folders = Counter(path.parent for path in modules() if path.name != "__init__.py")
    assert {folder.name: n for folder, n in folders.items() if n > 20} == {}


def test_class_names_are_unique():
    homes = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
