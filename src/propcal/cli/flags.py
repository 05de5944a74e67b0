"""How the command line writes the arguments that messages of the library mention."""

from __future__ import annotations

from shlex import quote

from propcal.errors import Argument, Text

# Only arguments whose option has another name or spelling, or is written with its dashes where no value
# follows. Any other is written as it is called in both: "alpha must be ...", but "--missing level".
FLAGS = {
    "max_updates": "--max-updates",
    "min_people": "--min-people",
    "n_bins": "--n-bins",
    "n_draws": "--draws",
    "random_state": "--seed",
    "weight_kind": "--weight-kind",
    "memory_limit": "--memory",
    "groups": "--groups",
    "cuts": "--cut",
    "na": "in a CSV file --na",
    "as_levels": "--as-levels",
    "positive": "--positive",
    "drop_missing": "--drop-missing",
    "allow_reversed": "--allow-reversed",
    # of propcal export
    "columns": "--rename",
    "types": "--type",
    # of propcal paper
    "n_groups": "--groups",
    "n_data_sets": "--data-sets",
    "n_people": "--people",
    "rows": "--rows",
    "models": "--models",
    "trials": "--trials",
    # no argument: what makes a file of atoms
    "Atoms.save": "propcal atoms makes one of people",
}
VALUES = {"cuts": "{}=..."}


def as_flag(mention: Argument) -> str:
    """A mention of an argument as one types it.

    >>> as_flag(Argument("missing", "level")), as_flag(Argument("resolution", "2**-15"))
    ('--missing level', '--resolution 2^-15')
    >>> as_flag(Argument("n_draws")), as_flag(Argument("cuts", "age"))
    ('--draws', '--cut age=...')
    """
    if mention.value is None:
        return FLAGS.get(mention.name, mention.name)
    value = str(mention.value).replace("**", "^")  # a shell would expand the star
    value = quote(value) if " " in value else value
    return f"{FLAGS.get(mention.name, f'--{mention.name}')} {VALUES.get(mention.name, '{}').format(value)}"


def told(text: str) -> str:
    """A message of the library in the words of the command line."""
    return text.render(as_flag) if isinstance(text, Text) else text
