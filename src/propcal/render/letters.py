"""Names as matplotlib can draw them: letter by letter, in lines that fit, no two alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

AND = " & "
OTHERWISE = {
    "\ufffd": "?",
    "…": "...",
    "≥": ">=",
    "≤": "<=",
    "←": "<",
    "→": ">",
    "−": "-",
    "▶": ">",
    "◀": "<",
}


def letters(text: str) -> str:
    """One line that the font can draw: no control characters, and a mark for signs that it lacks."""
    shown = []
    for sign in unicodedata.normalize("NFC", text):
        kind = unicodedata.category(sign)
        if sign.isspace() or kind == "Cc":
            shown.append(" ")
        elif kind not in ("Cf", "Cs", "Mn", "Me") or (kind[0] == "M" and has_glyph(sign)):
            shown.append(symbol(sign))
        elif kind == "Cs":  # half of a sign
            shown.append(symbol("\ufffd"))
    return " ".join("".join(shown).split())


def has_glyph(sign: str) -> bool:
    """Whether text in the current style can show it; matplotlib warns in the drawing if not."""
    from matplotlib.font_manager import FontProperties, findfont

    if sign.isascii():
        return True
    families = FontProperties().get_family()
    return any(_in_font(findfont(FontProperties(family=[family])), sign) for family in families)


@lru_cache(maxsize=10_000)
def _in_font(path: str, sign: str) -> bool:
    from matplotlib.font_manager import get_font

    return bool(get_font(path).get_char_index(ord(sign)))


def symbol(sign: str) -> str:
    """A sign, or where the font lacks it plain letters or a mark."""
    if has_glyph(sign):
        return sign
    return OTHERWISE.get(sign) or symbol("\ufffd")


def literal(text: str) -> str:
    """Text as matplotlib shows it letter by letter: no formulas, and no label hidden by an underscore."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def short(name: str, most: int = 48) -> str:
    """A name in one line of at most so many letters, ready to be drawn."""
    return literal(_cut(letters(name), most))


def labels(names: Sequence[str], most: int, lines: int = 1) -> list[str]:
    """Names in at most so many lines of so many letters; no two names get the same label."""
    shown = [letters(name) for name in names]
    cut = [_wrapped(text, most, lines) for text in shown]
    alike = {label for label in cut if cut.count(label) > 1}
    found: list[str] = []
    for text, label in zip(shown, cut):
        first = _cut(text, most, middle=True) if label in alike else label
        same, n = first, 1
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
    return text[: most - 1 - tail].rstrip() + symbol("…") + text[len(text) - tail :].lstrip()


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
