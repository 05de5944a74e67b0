"""Figures of matplotlib that everybody can read, with names as it can draw them."""

from __future__ import annotations

import textwrap
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from propcal.extras import how_to_install

# Okabe and Ito's colours, told apart by people with any colour vision, and line styles
# besides
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# points: the smallest that can be read in print
SMALL = 7.0
TEXT = 8.0
HATCH: dict[str, Any] = {
    "facecolor": "0.96",
    "edgecolor": "0.6",
    "hatch": "////",
    "linewidth": 0.0,
}
LETTER = 0.058  # inches that a letter of the small size takes on average
WIDE = 5.0  # inches from which there is room beside the picture
AND = " & "
LOOKS = Path(__file__).with_name("looks.toml")


@cache
def drawn_as(part: str) -> dict[str, Any]:
    """A part of looks.toml."""
    content: dict[str, Any] = tomllib.loads(LOOKS.read_text(encoding="utf-8"))[part]
    return content


def letters(text: str) -> str:
    """One line that the font can draw: no control characters, and a mark for signs that
    it lacks.
    """
    shown = []
    for sign in unicodedata.normalize("NFC", text):
        kind = unicodedata.category(sign)
        if sign.isspace() or kind == "Cc":
            shown.append(" ")
        elif kind not in ("Cf", "Cs", "Mn", "Me") or (
            kind[0] == "M" and has_glyph(sign)
        ):
            shown.append(symbol(sign))
        elif kind == "Cs":  # half of a sign
            shown.append(symbol("\ufffd"))
    return " ".join("".join(shown).split())


def has_glyph(sign: str) -> bool:
    """Whether text in the current style can show it; matplotlib warns in the drawing if
    not.
    """
    from matplotlib.font_manager import FontProperties, findfont

    if sign.isascii():
        return True
    families = FontProperties().get_family()
    return any(
        _in_font(findfont(FontProperties(family=[family])), sign) for family in families
    )


@lru_cache(maxsize=10_000)
def _in_font(path: str, sign: str) -> bool:
    from matplotlib.font_manager import get_font

    return bool(get_font(path).get_char_index(ord(sign)))


def symbol(sign: str) -> str:
    """A sign, or where the font lacks it plain letters or a mark."""
    if has_glyph(sign):
        return sign
    return drawn_as("letters").get(sign) or symbol("\ufffd")


def literal(text: str) -> str:
    """Text as matplotlib shows it letter by letter: no formulas, and no label hidden by
    an underscore.
    """
    text = text.replace("$", r"\$")
    if text.startswith("_"):
        return f" {text}"
    return text


def short(name: str, most: int = 48) -> str:
    """A name in one line of at most `most` letters, ready to be drawn."""
    return literal(_cut(letters(name), most))


def labels(names: Sequence[str], most: int, lines: int = 1) -> list[str]:
    """Names in at most `lines` lines of `most` letters; no two names get the same
    label.
    """
    shown = [letters(name) for name in names]
    cut = [_wrapped(text, most, lines) for text in shown]
    alike = {label for label in cut if cut.count(label) > 1}
    found: list[str] = []
    for text, label in zip(shown, cut):
        first = label
        if label in alike:
            first = _cut(text, most, middle=True)
        same = first
        n = 1
        while same in found:
            n += 1
            same = f"{first} ({n})"
        found.append(same)
    return [literal(label) for label in found]


def _cut(text: str, most: int, *, middle: bool = False) -> str:
    """Shorten at the end, or in the middle where that is what tells groups apart."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3 if middle or AND in text else 0
    return (
        text[: most - 1 - tail].rstrip()
        + symbol("…")
        + text[len(text) - tail :].lstrip()
    )


def _wrapped(text: str, most: int, lines: int) -> str:
    """Break between words; what does not fit into the last line is cut."""
    if len(text) <= most or lines == 1:
        return _cut(text, most)
    first, *words = text.split(" ")
    rows = [first]
    for word in words:
        if len(rows[-1]) + 1 + len(word) <= most or len(rows) == lines:
            rows[-1] += " " + word
        else:
            rows.append(word)
    return "\n".join(_cut(row, most) for row in rows)


def require_matplotlib() -> Any:
    """The class of figures of matplotlib; without matplotlib, say how to get it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(f"plots need matplotlib: {how_to_install('plots')}") from None
    return Figure


def axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or those of a new figure."""
    figure = require_matplotlib()
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    except ImportError:  # no display toolkit at all
        return figure(figsize=(width, height), layout="constrained").subplots()


def plain_letters() -> Any:
    """A context in which names are drawn as they are, also where the user's style asks
    for TeX.
    """
    from matplotlib import rc_context

    return rc_context({"text.usetex": False})


def inches(ax: Any) -> float:
    """How wide the place of the axes is in its figure, labels included."""
    # of a subfigure as well
    place = ax.get_subplotspec()
    whole = ax.figure.bbox.width / ax.figure.dpi
    if place is None:
        return float(ax.get_position().width * whole)
    grid = place.get_gridspec()
    return float(whole * (place.colspan.stop - place.colspan.start) / grid.ncols)


def tidy(ax: Any, *, xlabel: str, ylabel: str = "") -> None:
    """Labels and ticks in sizes that can be read at column width; no box around the
    picture.
    """
    ax.set_xlabel(xlabel, fontsize=TEXT)
    ax.set_ylabel(ylabel, fontsize=TEXT)
    ax.tick_params(labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)


def legend_below(
    ax: Any,
    handles: Sequence[Any],
    *,
    title: str = "",
    drop: float = 30,
    columns: int = 1,
    wide: bool = False,
) -> None:
    """A legend under the axes, `drop` points below them: inside it would hide what is
    drawn.

    A wide one also takes the room under the names of the rows.
    """
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    under = ax.transAxes + ScaledTranslation(0, -drop / 72, ax.figure.dpi_scale_trans)
    left = 0.0
    if wide:
        cell = ax.get_subplotspec()
        if cell is None:
            left = 0.02
        else:
            left = cell.colspan.start / cell.get_gridspec().ncols + 0.02
        under = blended_transform_factory(ax.figure.transSubfigure, under)
    place: dict[str, Any] = {
        "bbox_to_anchor": (left, 0),
        "bbox_transform": under,
        "ncols": columns,
    }
    texts = {"fontsize": SMALL, "title_fontsize": SMALL, "title": title or None}
    ax.legend(handles=list(handles), **place, **texts, **drawn_as("legend")).set_zorder(
        5
    )


def say(ax: Any, sentence: str) -> Any:
    """A sentence in the place of a picture that cannot be drawn."""
    ax.set_axis_off()
    width = max(20, int(inches(ax) / LETTER * 0.8))
    text = "\n".join(textwrap.wrap(letters(sentence), width))
    ax.text(
        0.5,
        0.5,
        literal(text),
        transform=ax.transAxes,
        ha="center",
        va="center",
        fontsize=TEXT,
    )
    return ax
