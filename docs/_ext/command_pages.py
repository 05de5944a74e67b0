"""The options of every command, taken from the commands themselves."""

import re
from pathlib import Path

BAR = "\\|"  # a bar inside a cell of a table
TARGET = Path("reference", "generated", "commands.txt")


def paragraph(text):
    """A text without the marks of the terminal."""
    plain = re.sub(r"\[/?[a-z ]+\]", "", text)
    return " ".join(plain.replace("\b", "").split())


def described(command, path):
    """One command: what it does, its example, and a table of its options for each
    heading of its help.
    """
    lines = [f"## `{path}`", ""]
    for part in re.split(r"\n\s*\n", command.help or ""):
        text = paragraph(part)
        if text.startswith("propcal ") or text.startswith("Example: "):
            lines += ["```sh", text.removeprefix("Example: "), "```", ""]
        elif text:
            lines += [text, ""]
    panels = {}
    for parameter in command.params:
        if (
            parameter.name in ("help", "help_all")
            or parameter.param_type_name == "argument"
        ):
            continue
        panel = getattr(parameter, "rich_help_panel", None) or "Options"
        panels.setdefault(panel, []).append(parameter)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    if arguments:
        lines += ["| argument | |", "| --- | --- |"]
        lines += [
            f"| `{p.metavar or p.name.upper()}` | {_cell(p.help)} |" for p in arguments
        ] + [""]
    for panel, parameters in panels.items():
        lines += [f"| {panel} | |", "| --- | --- |"]
        for p in parameters:
            names = ", ".join(f"`{name}`" for name in (*p.opts, *p.secondary_opts))
            value = "" if p.is_flag else f" `{(p.metavar or 'N').replace('|', BAR)}`"
            lines.append(f"| {names}{value} | {_cell(p.help)} |")
        lines.append("")
    return lines


def _cell(text):
    return (
        paragraph(text or "")
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("*", "\\*")
    )


def page():
    """All commands, in the order of `propcal --help`."""
    import typer

    from propcal.cli import app

    lines = []

    def walk(command, path):
        if getattr(command, "commands", None):
            context = typer.Context(command)
            for name in command.list_commands(context):
                walk(command.get_command(context, name), f"{path} {name}")
        else:
            lines.extend(described(command, path))

    walk(typer.main.get_command(app), "propcal")
    return "\n".join(lines)


def write(app):
    """Write the page before Sphinx looks for its sources."""
    target = Path(app.srcdir) / TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    text = page()
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def setup(app):
    """Connect to the start of a build."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
