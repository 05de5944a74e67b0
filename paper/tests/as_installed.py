"""The command `propcal paper` of the sources, for processes that run without ``pip
install ./paper``.
"""

import tomllib
from pathlib import Path

PAPER = Path(__file__).parents[1]


def entry_points_folder(folder: Path) -> str:
    """A folder for the path of Python, with the entry points of paper/pyproject.toml."""
    project = tomllib.loads((PAPER / "pyproject.toml").read_text())["project"]
    info = folder / f"propcal_paper-{project['version']}.dist-info"
    info.mkdir(parents=True)
    lines = []
    for group, entries in project["entry-points"].items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: propcal-paper\nVersion: {project['version']}\n"
    )
    return str(folder)
