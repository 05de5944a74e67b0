"""A correction as the tables that a one-file scorer holds, the same in every language.

A scorer finds the place of a person's level of each attribute, looks the combination of
places up, and gives the score to the map of that combination: a curve through the
knots, then pieces of slope 0 or 1. Between the two, points multiply the odds: the place
of a person's level or range of each feature gives a factor.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from propcal import __version__
from propcal.core.arguments import Unseen
from propcal.core.correction.correction import Correction
from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.smooth_map import knots
from propcal.errors import refused
from propcal.export.check_vectors import check_vectors
from propcal.export.compiled_tables import compiled_tables
from propcal.reading.levels import DECIMAL, level_key
from propcal.scoring.level_finders import Finder, Test, canonical_test

MAX_EXACT_WHOLE = 1 << 53  # doubles hold every whole number up to here
NO_CUT = ([0.0], [0, 0])  # cut points and places that tell no numbers apart
ScorerTable = dict[str, Any]


def scorer_tables(
    correction: Correction, unseen: Unseen | None, *, doubles_in: str = ""
) -> ScorerTable:
    """Compile a correction; `doubles_in` names a language in which every number is a
    double.

    Returns
    -------
    dict
        about : dict
            What the correction knows about itself.
        columns, numeric : list of str
            The columns that it reads, and those of them that must be numbers.
        attributes : list of dict
            How the place of a level is found: by `texts` and `numbers`, `cuts` of a
            number, or a `test`; and which places are of levels that did not occur in
            fitting (`unseen`).
        features : list of dict
            The same for each feature with points, and its `factors` by place.
        patterns : list of str
            Places of the levels, separated by spaces, and after "=" the number of the
            map.
        knots : list of int
            The scores at which curves are given, in units of 2**-32.
        maps : list of str
            The curve (empty: none), and after "|" begin, slope and offset of each
            piece.
        unseen : "replay", "keep" or "error"
            What happens to a combination that is not listed; with "replay" all are.
        vectors : list of lists
            A score, values of the columns, and the corrected score.
    """
    tables = compiled_tables(correction, unseen)
    correction = replace(correction, unseen=tables.unseen)

    map_of_pattern = _map_lines(tables.maps)
    different_maps = list(dict.fromkeys(map_of_pattern))
    number_of_map = {line: number for number, line in enumerate(different_maps)}
    patterns = []
    for places, map_line in zip(tables.patterns.table.tolist(), map_of_pattern):
        patterns.append(f"{_spaced(places)}={number_of_map[map_line]}")

    about = {"exported_by": f"propcal {__version__}"}
    about |= json.loads(correction.to_json())["about"]
    attributes = [_attribute_table(finder, doubles_in) for finder in tables.attributes]
    features = [_feature_table(finder, doubles_in) for finder in tables.features]
    return {
        "about": about,
        "columns": list(correction.reads),
        "numeric": correction.numeric,
        "attributes": attributes,
        "features": features,
        "patterns": patterns,
        "knots": knots().tolist() if correction.start is not None else [],
        "maps": different_maps,
        "unseen": tables.unseen,
        "vectors": check_vectors(correction),
    }


def _map_lines(maps: PatternMaps) -> list[str]:
    """Each map as a line of text, which a scorer reads when the first person needs
    it.
    """
    lines = []
    for pattern, curve in enumerate(maps.smooth.tolist()):
        pieces = maps.table(pattern).T.ravel().tolist()
        lines.append(f"{_spaced(curve)}|{_spaced(pieces)}")
    return lines


def _spaced(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def _attribute_table(finder: Finder, doubles_in: str) -> ScorerTable:
    return _places_table(finder, doubles_in) | {"unseen": list(finder.unseen)}


def _feature_table(finder: Finder, doubles_in: str) -> ScorerTable:
    table = _places_table(finder, doubles_in)
    return table | {"factors": list(finder.factors), "unseen": list(finder.unseen)}


def _places_table(finder: Finder, doubles_in: str) -> ScorerTable:
    """How the place of a person's level of an attribute or feature is found."""
    places = list(finder.places)
    if finder.condition is not None:
        test = _test_table(finder, canonical_test(finder.condition), doubles_in)
        return {"name": finder.name, "test": test, "places": places}

    column = {"name": finder.name, "column": finder.column}
    if finder.cuts is not None:
        cuts = list(finder.cuts)
        if not cuts:
            cuts, places = NO_CUT
        by_size = {"cuts": cuts, "places": places, "missing": finder.missing}
        return column | by_size

    numbers = []
    number_places = []
    for text, place in zip(finder.texts, places):
        number = _number(finder, text, doubles_in)
        if number is not None:
            numbers.append(number)
            number_places.append(place)
    by_level = {
        "texts": list(finder.texts),
        "text_places": places,
        "numbers": numbers,
        "number_places": number_places,
        "missing": finder.missing,
        "other": finder.other,
    }
    return column | by_level


def _test_table(finder: Finder, test: Test, doubles_in: str) -> Test:
    """A test in which levels that a number can have are also listed as numbers."""
    kind = test[0]
    if kind in ("and", "or", "not"):
        return [kind, *(_test_table(finder, part, doubles_in) for part in test[1:])]
    if kind not in ("in", "not in"):
        return test
    _, column, texts = test
    numbers = [_number(finder, text, doubles_in) for text in texts]
    return [kind, column, texts, [one for one in numbers if one is not None]]


def _number(finder: Finder, text: str, doubles_in: str) -> float | None:
    """The number whose level is this text; None if no number has it."""
    is_infinite = text in ("inf", "-inf")
    if not is_infinite and DECIMAL.fullmatch(text) is None:
        return None
    number = float(text)
    if not is_infinite and level_key(number) == text and abs(number) <= MAX_EXACT_WHOLE:
        return number
    if is_infinite or doubles_in:
        language = doubles_in or "Python"
        raise refused("inexact level", name=finder.name, text=text, language=language)
    return None
