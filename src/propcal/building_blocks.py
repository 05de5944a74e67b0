"""Names that experiments built on propcal may import, in addition to its public names.

They are kept stable, wherever they are defined: whoever moves or changes one of them
keeps it here. Like the names of propcal itself, each is loaded when it is first used.
The experiments of the paper, in the folder ``paper`` of the repository, import nothing
else of propcal.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PLACES = {  # where the names are, below propcal
    # errors, arguments and numbers
    "errors": "FileFormatError InputError Refusals plain",
    "core.arguments": "FEWEST_SHOWN check_choice check_number refuse_special",
    "numbers": "Style noun plural",
    # files
    "formats.table_files": "table_writer writes_text",
    "formats.transaction": "check_target new_folders outputs whole_file",
    "reading.file_source": "open_file",
    "reading.people_files": "TextFiles",
    "reading.outcomes": "outcome_numbers",
    # rows, cells and losses as arrays
    "core.bins": "uniform",
    "core.categories": "bucket_sums dc_of mc_of pmc_of",
    "core.compiled": "compiled",
    "core.correction.map_compiler": "TooLargeError",
    "core.grid": "BoolArray FloatArray IntArray UNIT",
    "core.groups": "membership pattern_name",
    "metrics": "CategoryRule",
    "reading.rows": "Rows checked_rows",
    # pages and pictures
    "render.markdown": "escaped",
    "render.matplotlib_style": "labels legend_below short tidy",
    # commands
    "cli.commands_from_records": "Commands Only add_command",
    "cli.option_values": "names",
    "cli.terminal": "draw echo log terminal voice working",
    "options": "Panel Roles",
}
_HOME = {
    name: f"propcal.{place}"
    for place, names in _PLACES.items()
    for name in names.split()
}
__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from propcal.cli.commands_from_records import Commands as Commands
    from propcal.cli.commands_from_records import Only as Only
    from propcal.cli.commands_from_records import add_command as add_command
    from propcal.cli.option_values import names as names
    from propcal.cli.terminal import draw as draw
    from propcal.cli.terminal import echo as echo
    from propcal.cli.terminal import log as log
    from propcal.cli.terminal import terminal as terminal
    from propcal.cli.terminal import voice as voice
    from propcal.cli.terminal import working as working
    from propcal.core.arguments import FEWEST_SHOWN as FEWEST_SHOWN
    from propcal.core.arguments import check_choice as check_choice
    from propcal.core.arguments import check_number as check_number
    from propcal.core.arguments import refuse_special as refuse_special
    from propcal.core.bins import uniform as uniform
    from propcal.core.categories import bucket_sums as bucket_sums
    from propcal.core.categories import dc_of as dc_of
    from propcal.core.categories import mc_of as mc_of
    from propcal.core.categories import pmc_of as pmc_of
    from propcal.core.compiled import compiled as compiled
    from propcal.core.correction.map_compiler import TooLargeError as TooLargeError
    from propcal.core.grid import UNIT as UNIT
    from propcal.core.grid import BoolArray as BoolArray
    from propcal.core.grid import FloatArray as FloatArray
    from propcal.core.grid import IntArray as IntArray
    from propcal.core.groups import membership as membership
    from propcal.core.groups import pattern_name as pattern_name
    from propcal.errors import FileFormatError as FileFormatError
    from propcal.errors import InputError as InputError
    from propcal.errors import Refusals as Refusals
    from propcal.errors import plain as plain
    from propcal.formats.table_files import table_writer as table_writer
    from propcal.formats.table_files import writes_text as writes_text
    from propcal.formats.transaction import check_target as check_target
    from propcal.formats.transaction import new_folders as new_folders
    from propcal.formats.transaction import outputs as outputs
    from propcal.formats.transaction import whole_file as whole_file
    from propcal.metrics import CategoryRule as CategoryRule
    from propcal.numbers import Style as Style
    from propcal.numbers import noun as noun
    from propcal.numbers import plural as plural
    from propcal.options import Panel as Panel
    from propcal.options import Roles as Roles
    from propcal.reading.file_source import open_file as open_file
    from propcal.reading.outcomes import outcome_numbers as outcome_numbers
    from propcal.reading.people_files import TextFiles as TextFiles
    from propcal.reading.rows import Rows as Rows
    from propcal.reading.rows import checked_rows as checked_rows
    from propcal.render.markdown import escaped as escaped
    from propcal.render.matplotlib_style import labels as labels
    from propcal.render.matplotlib_style import legend_below as legend_below
    from propcal.render.matplotlib_style import short as short
    from propcal.render.matplotlib_style import tidy as tidy


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
