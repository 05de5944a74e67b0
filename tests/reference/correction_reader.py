"""Scores people by the file of a correction, written from
docs/reference/correction-file.md alone.
"""

import json
import math
import re
from decimal import Decimal
from functools import cache
from itertools import pairwise

ONE = 2**32
ENTRIES = {
    "format",
    "version",
    "unit",
    "about",
    "attributes",
    "derived",
    "bins",
    "groups",
    "patterns",
}
ENTRIES |= {"unseen", "updates"}
TOKEN = re.compile(
    r"\s*('(?:[^'\\]|\\.)*'|`[^`]+`|-?[\d.]+(?:[eE][+-]?\d+)?|\w+|<=|>=|!=|[<>=()\[\],])"
)
COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Reader:
    """One file, ready to score people given as dicts from column to value."""

    def __init__(self, text):
        self.content = content = json.loads(text)
        if content.get("format") != "propcal-correction" or content[
            "version"
        ] not in range(1, 8):
            raise ValueError("no correction file of version 1 to 7")
        added = {
            1: set(),
            2: {"start"},
            3: {"start"},
            4: {"start", "monotone"},
            5: {"start", "monotone", "folded"},
            6: {"start", "monotone", "folded", "points"},
            7: {"start", "monotone", "folded", "points", "ends"},
        }
        if set(content) != ENTRIES | added[content["version"]]:
            raise ValueError("other entries than those of its version")
        if content["version"] < 3:
            content["patterns"] = [
                [level(value) for value in row] for row in content["patterns"]
            ]
            content["groups"] = [as_cells(group) for group in content["groups"]]
            content["start"] = [
                [as_cells(group), shifts] for group, shifts in content.get("start", [])
            ]
        self.terms = content.get("start", [])
        self.seen = {tuple(pattern) for pattern in content["patterns"]}
        self.listed = [
            {pattern[a] for pattern in self.seen}
            for a in range(len(content["attributes"]))
        ]
        self.known, self.last = {}, {}

    def score(self, score, person, unseen=None):
        """The corrected score of one person."""
        pattern = self.pattern(person)
        if pattern not in self.seen:
            policy = unseen or self.content["unseen"]
            if policy == "error":
                raise LookupError("a combination that was not seen in fitting")
            if policy == "keep":
                return score
        if pattern not in self.known:
            self.known[pattern] = self.curve(pattern), self.updates(pattern)
        curve, updates = self.known[pattern]
        raw = math.floor(score * 2.0**32 + 0.5)
        value = on_line(curve, raw) if curve else raw
        points = self.content.get("points", [])
        value = (
            multiplied(value, [factor(feature, person) for feature in points])
            if points
            else value
        )
        if self.content.get("monotone") and updates:
            ends = [end for end in self.ends(pattern) if end < value]
            value = max(self.adjusted(v, updates) for v in (value, *ends))
        else:
            value = self.adjusted(value, updates)
        return score if value == raw and not points else value / 2**32

    def adjusted(self, value, updates):
        """The value after all updates."""
        edges = self.content["bins"]["edges"]
        for j, shift in updates:
            if edges[j] <= value and (value < edges[j + 1] or j == len(edges) - 2):
                value = min(max(value + shift, 0), ONE)
        return value

    def ends(self, pattern):
        """The values at which a piece of the updates' map ends: the next one meets
        another edge or limit.
        """
        if pattern not in self.last:
            edges = self.content["bins"]["edges"]
            pieces = [(0, ONE, 1, 0)]  # from, to (inclusive), slope, offset
            for j, shift in self.updates(pattern):
                low, high = edges[j], edges[j + 1] - (j < len(edges) - 2)
                cut = []
                for begin, end, slope, offset in pieces:
                    if slope == 0:
                        moved = (
                            min(max(offset + shift, 0), ONE)
                            if low <= offset <= high
                            else offset
                        )
                        cut.append((begin, end, 0, moved))
                        continue
                    inside = max(begin, low - offset), min(end, high - offset)
                    if inside[0] > inside[1]:
                        cut.append((begin, end, 1, offset))
                        continue
                    cut.append((begin, inside[0] - 1, 1, offset))
                    total = offset + shift
                    zero = min(
                        inside[1], -total - 1
                    )  # the last value that is clipped to 0
                    one = max(
                        inside[0], ONE - total + 1
                    )  # the first that is clipped to 1
                    cut.append((inside[0], zero, 0, 0))
                    cut.append(
                        (max(inside[0], zero + 1), min(inside[1], one - 1), 1, total)
                    )
                    cut.append((one, inside[1], 0, ONE))
                    cut.append((inside[1] + 1, end, 1, offset))
                pieces = [piece for piece in cut if piece[0] <= piece[1]]
            self.last[pattern] = [end for _, end, _, _ in pieces]
        return self.last[pattern]

    def pattern(self, person):
        """The level of each attribute."""
        derived, folded = self.content["derived"], self.content.get("folded", [])
        levels = []
        for name, listed in zip(self.content["attributes"], self.listed):
            own = self.level(person, name, derived.get(name))
            if listed - {None} and listed <= {"true", "false", None}:
                truth = {"1": "true", "0": "false"}.get(own, own)
                own = truth if truth in listed else own
            levels.append(
                "other levels" if name in folded and own not in listed else own
            )
        return tuple(levels)

    def level(self, person, name, recipe):
        if recipe is None:
            return level(person[name])
        if "where" in recipe:
            return "true" if Condition(recipe["where"], person).holds() else "false"
        value = person[recipe["column"]]
        if level(value) is None:
            return None
        labels = range_labels(recipe["cuts"])
        return labels[sum(value >= cut for cut in recipe["cuts"])]

    def inside(self, group, pattern):
        places = self.content["attributes"]
        return all(
            pattern[places.index(attribute)] == wanted for attribute, wanted in group
        )

    def updates(self, pattern):
        """Bin and shift of the updates that apply to a pattern, in order."""
        inside = [self.inside(group, pattern) for group in self.content["groups"]]
        return [(j, shift) for g, j, shift in self.content["updates"] if inside[g]]

    def curve(self, pattern):
        """The corners of a pattern's smooth map; nothing if the file has none."""
        if not self.terms:
            return []
        ends = self.content.get("ends", [[0, 0]] * len(self.terms))
        mine = [
            [low, *inner, high]
            for (group, inner), (low, high) in zip(self.terms, ends)
            if self.inside(group, pattern)
        ]
        limit = (22 if any(map(any, ends)) else 10) * 2**20
        corners = []
        for k in range(-1, 194):
            outermost = k in (-1, 193)
            shift = min(max(sum(shifts[k + 1] for shifts in mine), -limit), limit)
            p = min(max((k - 96) * 2**17 + shift + 22 * 2**20, 0), 44 * 2**20)
            i, rest = divmod(p, 2**14)
            low = logistic(i)
            y = low + ((logistic(i + 1) - low) * rest + 2**13) // 2**14 if rest else low
            x = logistic(640 + 8 * k)
            if outermost:
                x = ONE if k > 0 else 0
                y = y if shift else x
            corners.append((x, max(y, corners[-1][1]) if corners else y))
        return corners


def factor(feature, person):
    """What the points of one feature multiply the odds by."""
    value = person[feature["column"]]
    if level(value) is None:
        points = feature["missing"]
    elif feature["levels"]:
        listed = dict(zip(feature["levels"], feature["points"]))
        points = listed.get(level(value), feature["other"])
    else:
        points = feature["points"][sum(value >= cut for cut in feature["cuts"])]
    return float((Decimal(points or 0) / 1000).exp())


def multiplied(value, factors):
    """A value with its odds multiplied by each factor in turn."""
    if value in (0, ONE):
        return value
    risk = 1.0 - 1.0 / (1.0 + math.prod(factors) * (value / (ONE - value)))
    return min(max(math.floor(risk * 2.0**32 + 0.5), 1), ONE - 1)


@cache
def logistic(i):
    """Entry i of the table of the logistic curve."""
    return math.floor(2**32 / (1 + math.exp((1408 - i) / 64)) + 0.5)


def on_line(corners, raw):
    """The smooth map at one score: between two corners, halves upwards."""
    k = next(k for k in range(1, len(corners)) if raw <= corners[k][0])
    (x0, y0), (x1, y1) = corners[k - 1], corners[k]
    return y0 + (2 * (y1 - y0) * (raw - x0) + (x1 - x0)) // (2 * (x1 - x0))


def level(value):
    """The canonical text of a value, None if it is missing."""
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        bare = value.strip(" ")
        if bare.lower() in ("true", "false"):
            return bare.lower()
        if not re.fullmatch(r"-?(0|[1-9][0-9]*)([.][0-9]*)?", bare):
            return value
        value = bare
    digits = format(Decimal(str(value)), "f")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits == "-0" else digits


def as_cells(group):
    """A group of an older file."""
    return [[attribute, level(wanted)] for attribute, wanted in group]


def range_labels(cuts):
    texts = [f"{cut:.12g}" for cut in cuts]
    if len(set(texts)) < len(texts):
        texts = [repr(float(cut)) for cut in cuts]
    middle = [f"{low} to under {high}" for low, high in pairwise(texts)]
    return [f"under {texts[0]}", *middle, f"{texts[-1]} or over"]


class Condition:
    """Reads a condition and decides it for one person in the same go."""

    def __init__(self, text, person):
        self.tokens, self.person = TOKEN.findall(text), person

    def next(self, *wanted):
        """Take the next token if it is one of these (any, if none is named)."""
        if self.tokens and (not wanted or self.tokens[0] in wanted):
            return self.tokens.pop(0)
        return ""

    def holds(self):
        found = self.single()
        while joint := self.next("and", "or"):
            other = self.single()  # read on, whatever was found so far
            found = (found and other) if joint == "and" else (found or other)
        return found

    def single(self):
        negated = bool(self.next("not"))
        if self.next("("):
            found = self.holds()
            self.next(")")
        else:
            found = self.test()
        return found != negated

    def test(self):
        value = self.person[self.next().strip("`")]
        op = self.next("=", "!=", "in", "is", *COMPARE)
        if op == "is":
            self.next("missing")
            return level(value) is None
        if op in COMPARE:
            limit = float(self.literal())
            return level(value) is not None and COMPARE[op](value, limit)
        literals = [self.literal()] if op else []
        if op == "in":
            while self.next(","):
                literals.append(self.literal())
            self.next("]")
        if level(value) is None:
            return False
        if not op:
            return level(value) == "true"
        return any(equal(value, literal) for literal in literals) != (op == "!=")

    def literal(self):
        self.next("[")
        token = self.next()
        return re.sub(r"\\(.)", r"\1", token[1:-1]) if token.startswith("'") else token


def equal(value, literal):
    """Whether a value that is not missing is what a condition names."""
    named = {level(literal)}
    if re.fullmatch(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", literal) and not re.match(
        r"-?0\d", literal
    ):
        named.add(level(Decimal(literal)))
    named |= {"true"} if "1" in named else set()
    named |= {"false"} if "0" in named else set()
    return level(value) in named
