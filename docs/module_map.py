"""Print the map of the source: what every folder and module is, by its own first line.

python docs/module_map.py (or `make map`)
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "propcal"
PAPER = ROOT / "paper" / "src" / "propcal_paper"
# the way data take; the modules of propcal itself come first
ORDER = [
    "core",
    "datasets",
    "reading",
    "auditing",
    "discovery",
    "monitoring",
    "sites",
    "protect",
    "formats",
    "scoring",
    "export",
    "documents",
    "render",
    "cli",
]


def first_line(path):
    """What a module says that it is."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n")[0].replace("``", "`")


def folders():
    """Every folder, parents before their children."""
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == {*ORDER}, (
        "ORDER lacks a folder"
    )
    for name in ORDER:
        yield from sorted(path.parent for path in (SOURCE / name).rglob("__init__.py"))


def section(folder, heading):
    """A folder with its sentence, and its modules."""
    lines = [f"\n{heading}  {first_line(folder / '__init__.py')}"]
    paths = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    return lines + [f"  {path.stem:<22} {first_line(path)}" for path in paths]


def page():
    """The whole map."""
    lines = [*section(SOURCE, "propcal")]
    for folder in folders():
        lines += section(folder, f"{folder.relative_to(SOURCE).as_posix()}/")
    for folder in sorted(path.parent for path in PAPER.rglob("__init__.py")):
        name = folder.relative_to(PAPER.parent).as_posix()
        lines += section(folder, f"paper/src/{name}/")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page())
