"""Reads a file of atoms with pyarrow, written from docs/reference/atoms-file.md
alone.
"""

import json
from collections import defaultdict
from fractions import Fraction
from itertools import combinations

import pyarrow.parquet as pq

SUMS = ["score", "people", "weight", "weight_sq", "positives", "positives_sq"]
ALPHA, GAMMA, BINS = Fraction(1, 20), Fraction(1, 20), 10


class AtomsReader:
    """One file: its header, the names of its attributes, and a dict for each atom."""

    def __init__(self, path):
        table = pq.read_table(path)
        self.header = json.loads(table.schema.metadata[b"propcal"])
        if self.header["format"] != "propcal-atoms" or self.header["version"] > 1:
            raise ValueError("no atoms file of version 1")
        names = [name for name in table.column_names if name.startswith("attribute:")]
        if table.column_names != names + SUMS:
            raise ValueError("other columns than those of atoms")
        self.attributes = [name.removeprefix("attribute:") for name in names]
        self.atoms = table.rename_columns(self.attributes + SUMS).to_pylist()

    def total(self, column):
        return sum(atom[column] for atom in self.atoms)

    def groups(self):
        """For each group that counts, as a tuple of (attribute, level), its atoms."""
        makes_groups = [
            name
            for name in self.attributes
            if name != "cluster bucket" and not name.startswith("correction: ")
        ]
        least = GAMMA * Fraction(self.total("weight"))
        for size in range(1, len(makes_groups) + 1):
            for names in combinations(makes_groups, size):
                yield from self.levels_together(names, least)

    def levels_together(self, names, least):
        found = defaultdict(list)
        for atom in self.atoms:
            found[tuple((name, atom[name]) for name in names)].append(atom)
        named = [
            name for name in names if "where" in self.header["derived"].get(name, {})
        ]
        for group, atoms in found.items():
            holds = all(level == "true" for name, level in group if name in named)
            if holds and sum(Fraction(atom["weight"]) for atom in atoms) >= least:
                yield group, atoms

    def mc_loss(self):
        """The largest gap of a category, exactly."""
        least = ALPHA * GAMMA / BINS * Fraction(self.total("weight"))
        largest = Fraction(0)
        for _, atoms in self.groups():
            by_bin = defaultdict(list)
            for atom in atoms:
                by_bin[bin_of(atom["score"])].append(atom)
            for inside in by_bin.values():
                weight = sum(Fraction(atom["weight"]) for atom in inside)
                positives = sum(Fraction(atom["positives"]) for atom in inside)
                scores = (
                    sum(Fraction(atom["weight"]) * atom["score"] for atom in inside)
                    / 2**32
                )
                if weight >= least:
                    largest = max(largest, abs(positives - scores) / weight)
        return largest


def bin_of(score):
    edges = [(2 * j * 2**32 + BINS) // (2 * BINS) for j in range(1, BINS)]
    return sum(score >= edge for edge in edges)
