"""How the command line writes arguments that the library's messages mention."""

from __future__ import annotations

from shlex import quote

from propcal.errors import Argument, Text

# Arguments whose option has another name or spelling, or is written with dashes without a value. Others keep
# their name: "alpha must be ...", but "--missing level".
FLAGS = {
    "max_updates": "--max-updates",
    "min_people": "--min-people",
    "min_share": "--min-share",
    "min_group": "--min-group",
    "min_events": "--min-events",
    "labels": "--label",
    "n_bins": "--n-bins",
    "n_draws": "--draws",
    "max_groups": "--max-groups",
    "thresholds": "--threshold",
    "random_state": "--seed",
    "weight_kind": "--weight-kind",
    "memory_limit": "--memory",
    "groups": "--groups",
    "cuts": "--cut",
    "as_levels": "--as-levels",
    "positive": "--positive",
    "drop_missing": "--drop-missing",
    "allow_reversed": "--allow-reversed",
    "monotone": "--monotone",
    # of propcal monitor
    "every": "--every",
    "timezone": "--timezone",
    "delay": "--delay",
    "baseline": "--baseline",
    "binning": "--binning",
    "Monitor.save": "propcal monitor writes one",
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
    "setup": "--setup",
    "features": "--features",
    "protect": "--protect",
    "text": "--text",
    # not an argument
    "Atoms.save": "propcal atoms writes one",
}
VALUES = {"cuts": "{}=..."}


def as_flag(mention: Argument) -> str:
    """A mention of an argument as the user types it.

    >>> as_flag(Argument("missing", "level")), as_flag(Argument("resolution", "2**-15"))
    ('--missing level', '--resolution 2^-15')
    >>> as_flag(Argument("n_draws")), as_flag(Argument("cuts", "age"))
    ('--draws', '--cut age=...')
    """
    if mention.value is None:
        return FLAGS.get(mention.name, mention.name)
    value = str(mention.value).replace("**", "^")  # a shell would expand the star
    value = quote(value) if mention.name == "positive" else value
    return f"{FLAGS.get(mention.name, f'--{mention.name}')} {VALUES.get(mention.name, '{}').format(value)}"


def told(text: str) -> str:
    """A message of the library with options of the command line."""
    return text.render(as_flag) if isinstance(text, Text) else text
