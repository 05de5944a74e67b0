"""Methods of an audit in sentences, to be quoted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from propcal.documents.words import sentence, sentence_if
from propcal.options import Identity

Settings = Mapping[str, Any]

say = partial(sentence, "methods")
say_if = partial(sentence_if, "methods")


def lead(settings: Settings, who: Identity) -> str:
    """How many people, and how many of them had the outcome."""
    return say("lead", s=settings, who=who, outcome=who.outcome)


def methods(
    settings: Settings,
    who: Identity,
    *,
    attributes: str,
    seed: Any,
    kept: int,
    left_out: int,
) -> list[str]:
    """What was done, a paragraph each; `kept` and `left_out` count groups."""
    missing = _missing(settings["missing"], who)
    paragraphs = [
        say("people", s=settings, who=who, attributes=attributes, missing=missing),
        say("what_was_tested", s=settings, who=who, kept=kept, left_out=left_out),
        say("losses", s=settings),
        say("chance", s=settings, seed=seed),
    ]
    if not settings["soft_labels"]:
        paragraphs.append(say("tests"))
    return [*paragraphs, say("measures", who=who), _weights(settings)]


def _missing(treatment: str, who: Identity) -> str:
    """What became of missing values."""
    if treatment == "level":
        return say("missing_as_level")
    if treatment == "exclude":
        return say("missing_excluded", who=who)
    return say_if(treatment == "error", "none_missing")


def _weights(settings: Settings) -> str:
    """How rows were counted, and that repeat visits were taken as dependent."""
    counted = settings["weights"] == "frequency"
    text = say("weights_are_counts" if counted else "survey_weights")
    if settings["buckets"]:
        return f"{text} {say('repeat_visits', s=settings)}"
    return text
