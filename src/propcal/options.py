"""Options as records: which column is what, what is tested, and names.

The fields of a record are keyword arguments of the library. Its docstring describes
them, and the command line and its help are generated from both. A field that has its
default was not given: the library then decides.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, TypeVar

from propcal.core.arguments import (
    Intersections,
    Label,
    Missing,
    WeightKind,
    check_number,
)
from propcal.errors import plain, refused
from propcal.numbers import IN_SENTENCE

if TYPE_CHECKING:
    from numpy.random import Generator

    from propcal.core.bins import Binning
    from propcal.core.correction.correction import Correction
    from propcal.core.groups import Groups

F = TypeVar("F", bound=Callable[..., Any])
Seed: TypeAlias = "int | Generator | None"
Correcting: TypeAlias = "Correction | Fitted"
Limits = Mapping[str, Any]  # the range of a number, as `check_number` takes it
UP_TO_1: Limits = {"above": 0, "at_most": 1}
SHARE: Limits = {"at_least": 0, "at_most": 1}
COUNT: dict[str, Any] = {"at_least": 1, "whole": True}
MOST_LETTERS = 200  # of a name, a title, a source
TEXTS = (
    "title",
    "score",
    "outcome",
    "unit",
    "source",
    "period",
    "institution",
    "population",
)


class Fitted(Protocol):
    """A fitted PMCBoost, MCBoost or MulticalibratedClassifier."""

    @property
    def correction_(self) -> Correction:
        """The correction that was fitted."""


@dataclass(frozen=True)
class Option:
    """How the command line offers a field.

    Attributes
    ----------
    panel : str
        The heading under which it is listed.
    help : str
        Its text, if not in the docstring of the record; either may end with ``Default:
        ...``.
    flags : tuple of str
        Its names with dashes, if they differ from the field's.
    metavar : str
        What stands for its value. It also decides how a text is read: see
        `propcal.cli.option_values.READ`.
    argument : str
        The library's keyword argument, if its name differs from the field's.
    least : int, optional
        The smallest number that is accepted.
    """

    panel: str
    help: str
    flags: tuple[str, ...]
    metavar: str
    argument: str = ""
    least: int | None = None


@dataclass(frozen=True)
class Panel:
    """A heading in the help of a command, and the options below it: fields of records,
    or parameters.
    """

    title: str

    def option(
        self,
        usage: str,
        text: str = "",
        *,
        default: Any = None,
        limits: Limits | None = None,
        **more: Any,
    ) -> Any:
        """An option that may be left out; `usage` has its flags, if it needs other
        ones, and its metavar.
        """
        parts = usage.split()
        flags = tuple(part for part in parts if part.startswith("-"))
        about = Option(self.title, text, flags, " ".join(parts[len(flags) :]), **more)
        return field(default=default, metadata={"option": about, "limits": limits})

    def required(self, usage: str, text: str = "") -> Any:
        """An option that must be given."""
        return self.option(usage, text, default=MISSING)

    def flag(self, text: str = "") -> Any:
        """An option without a value."""
        return self.option("", text, default=False)


DATA = Panel("Your data")
GROUPS = Panel("Groups")
METHOD = Panel("Method")
OUTPUT = Panel("Output")
TIME = Panel("Time")
SEARCH = Panel("Search")
DATABASE = Panel("Your database")
NAMES = Panel("Names in the report")
UNSEEN = METHOD.option(
    "replay|keep|error",
    "For combinations of groups that did not occur in the fitting data: apply the "
    "adjustments of the groups that a person belongs to, keep the score, or stop.",
)


class Given(dict[str, Any]):
    """Options of the record `kind` that were given on the command line, by the names of
    its fields.
    """

    def __init__(self, kind: Any, **values: Any) -> None:
        super().__init__(values)
        self.kind = kind


def given_fields(record: Any) -> list[tuple[Field[Any], Any]]:
    """The fields of a record that were given, with their values."""
    if isinstance(record, Given):
        return [(f, record[f.name]) for f in fields(record.kind) if f.name in record]
    found = []
    for f in fields(record):
        value = getattr(record, f.name)
        if value is not f.default and value not in ("", [], {}):
            found.append((f, value))
    return found


def given(*records: Any) -> dict[str, Any]:
    """The options that were given, by the library's keyword arguments.

    >>> given(Given(LossRule, gamma=0.02), Reading())
    {'gamma': 0.02}
    """
    arguments = {}
    for record in records:
        for f, value in given_fields(record):
            arguments[argument_of(f)] = value
    return arguments


def check_limits(record: Any) -> None:
    """Refuse numbers outside of the limits of their fields; None is fine where it is
    the default.
    """
    for f in fields(record):
        value = getattr(record, f.name)
        limits = f.metadata.get("limits")
        may_be_none = f.default is None
        if limits and not (value is None and may_be_none):
            check_number(f.name, value, **limits)


def argument_of(one: Field[Any]) -> str:
    """The library's keyword argument for a field."""
    return getattr(one.metadata.get("option"), "argument", "") or one.name


def descriptions(record: Any) -> dict[str, str]:
    """What the docstring of a record says of each field, or that of a command of each
    parameter.

    >>> descriptions(Reading)["resolution"]
    'Round scores to this grid, such as 2^-16, to save memory. Default: exact'
    """
    kinds = reversed(getattr(record, "__mro__", [record]))
    parameters = []
    for kind in kinds:
        doc = inspect.cleandoc(kind.__doc__ or "")
        parameters.append(re.split(r"\n(?:Attributes|Parameters)\n-+\n", doc)[-1])
    entries = re.findall(
        r"^(\w+)(?: : .*)?\n((?: {4}.*\n?)+)", "\n".join(parameters), re.MULTILINE
    )
    return {name: " ".join(text.split()) for name, text in entries}


def spelled_out(*records: Any) -> Callable[[F], F]:
    """Show the fields of records in the signature of a function that takes them as
    ``**settings``.

    What its docstring does not describe is described there as on the command line.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function, follow_wrapped=False)
        parameters = [
            one
            for one in signature.parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        doc = function.__doc__ or ""
        for record in records:
            texts = descriptions(record)
            for f in fields(record):
                parameters.append(_keyword(f))
                doc = _described(doc, f, texts.get(f.name, ""))
        function.__doc__ = doc
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters
        )
        return function

    return decorate


def _keyword(one: Field[Any]) -> inspect.Parameter:
    """A field as a keyword argument."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        argument_of(one), kind, default=one.default, annotation=one.type
    )


def _described(doc: str, one: Field[Any], text: str) -> str:
    """A docstring that describes a field among the parameters."""
    name = argument_of(one)
    if re.search(rf"\b{name}\b", doc):
        return doc
    entry = f"\n    {name} : {one.type}, default={one.default!r}\n        {text}"
    return doc.replace("\n\n    Returns\n", f"{entry}\n\n    Returns\n", 1)


@dataclass(frozen=True)
class Roles:
    """Which column is what, and which people count.

    Attributes
    ----------
    score
        Risk score column, from 0 to 1.
    outcome
        Outcome column: 0 or 1, yes or no.
    positive
        Value of the outcome that means the event, such as EXPIRED. Not needed for 0/1,
        yes/no or true/false.
    groups
        Columns that define the groups: race,gender.
    weight
        Weight column.
    weight_kind
        Whether weights are counts of people or survey weights. Default: counts if all
        are whole numbers
    cluster
        Patient ID column, if there are repeat visits.
    site
        Column with the site (hospital) of each person; or the name of the one site that
        all files are from, if there is no such column.
    cuts
        Divide a number column into ranges: age=18,40,65.
    where
        Define a group by a condition: "elderly=age >= 75 and insurance = Medicare".
    as_levels
        Columns of number codes, such as hospital, whose values are groups even if there
        are more than 20.
    na
        Text in a CSV file that means missing, such as NA; an empty value always does.
    drop_missing
        Leave out people without a score or an outcome, and report how many.
    """

    score: str | None = DATA.option("COLUMN")
    outcome: str | None = DATA.option("COLUMN")
    positive: str | None = DATA.option("VALUE")
    groups: list[str] | None = GROUPS.option("COLUMNS")
    weight: str | None = DATA.option("COLUMN")
    weight_kind: str | None = DATA.option("auto|frequency|survey")
    cluster: str | None = DATA.option("COLUMN")
    site: str | None = DATA.option("COLUMN|NAME")
    cuts: dict[str, list[float]] | None = GROUPS.option("--cut COLUMN=NUMBERS")
    where: dict[str, str] | None = GROUPS.option("NAME=CONDITION")
    as_levels: list[str] | None = GROUPS.option("COLUMNS")
    na: list[str] | None = DATA.option("TEXT")
    drop_missing: bool = DATA.flag()


@dataclass(frozen=True)
class Reading:
    """How files are read.

    Attributes
    ----------
    resolution
        Round scores to this grid, such as 2^-16, to save memory. Default: exact
    memory_limit
        Memory to use while reading, such as 2GB; the rest is kept on disk temporarily.
    """

    resolution: float | None = DATA.option("2^-N")
    memory_limit: str | None = DATA.option("--memory SIZE")


@dataclass(frozen=True)
class LossRule:
    """Which groups, risk ranges and cells count: keyword arguments of the losses; see
    `mc_loss`.

    Attributes
    ----------
    intersections
        Which intersections are groups too: all, marginal (none), or those of up to
        DEPTH columns. Default: all
    missing
        People with a missing value form their own group, belong to none, or cause an
        error. Default: level
    gamma
        Smallest share of people in a group whose risk ranges, losses and adjustments
        count, unless --where names it. Default: 0.05
    alpha
        Tolerance, as a share of the observed rate. Default: 0.05
    rho
        Floor on observed rates: lower ones count as this rate. Use a smaller one if the
        outcome is rare. Default: 0.1
    n_bins
        Number of risk ranges. Default: 10
    binning
        Risk ranges: uniform, geometric, quantile, or their edges 0,0.1,0.5,1. Default:
        uniform
    """

    intersections: Intersections = GROUPS.option("all|marginal|DEPTH", default="all")
    missing: Missing = GROUPS.option("level|exclude|error", default="level")
    gamma: float = GROUPS.option("SHARE", default=0.05, limits=UP_TO_1)
    alpha: float = METHOD.option("SHARE", default=0.05, limits=UP_TO_1)
    rho: float = METHOD.option("RATE", default=0.1, limits=UP_TO_1)
    n_bins: int = METHOD.option("N", default=10)
    binning: Binning = METHOD.option("KIND|EDGES", default="uniform")
    groups: Groups | None = None
    min_share: float | None = field(default=None, metadata={"limits": SHARE})
    min_people: int = field(default=1, metadata={"limits": COUNT})


@dataclass(frozen=True)
class AuditRule(LossRule):
    """Keyword arguments of `audit`, which describes each, beside data and names.

    Attributes
    ----------
    min_people
        Fewest people in a cell that is tested. Default: 30
    min_group
        Fewest people in a group that is tested. Default: 50
    min_events
        Fewest expected events, and non-events, in a group that is tested. Default: 10
    n_draws
        Simulated data sets for what chance alone would show. Default: 1000
    bin_free
        Also compute measures that need no bins: ECCE with its worst range of scores,
        smooth ECE.
    within
        Ask whether the score is shown to be right to within this share, such as 20%,
        overall and in every group tested.
    random_state
        Seed for random numbers.
    thresholds
        Risk from which people would be treated, such as 0.2: prints their number,
        sensitivity, PPV and net benefit for every group. The report starts at this
        risk.
    """

    min_people: int = GROUPS.option("N", default=30, limits=COUNT)
    min_group: int = GROUPS.option("N", default=50, limits=COUNT)
    min_events: int = GROUPS.option(
        "N", default=10, limits={"at_least": 0, "whole": True}
    )
    weight_kind: WeightKind = "auto"
    positive: Label = None
    drop_missing: bool = False
    n_draws: int = METHOD.option(
        "--draws N",
        default=1000,
        limits={"at_least": 100, "at_most": 1_000_000, "whole": True},
    )
    bin_free: bool = METHOD.flag()
    within: float | None = METHOD.option("20%")
    random_state: int | Generator | None = METHOD.option("--seed N", default=0)
    thresholds: Sequence[float] = METHOD.option("--threshold RISK", default=())


class LossOptions(TypedDict, total=False):
    """The fields of `LossRule`, as type checkers and editors read keyword arguments."""

    alpha: float
    gamma: float
    rho: float
    n_bins: int
    binning: Binning
    intersections: Intersections
    missing: Missing
    groups: Groups | None
    min_share: float | None
    min_people: int


class AuditOptions(LossOptions, total=False):
    """The fields of `AuditRule`, and what `Identity` has names for."""

    min_group: int
    min_events: int
    weight_kind: WeightKind
    positive: Label
    drop_missing: bool
    n_draws: int
    bin_free: bool
    within: float | None
    random_state: Seed
    thresholds: Sequence[float] | float
    labels: Mapping[str, Mapping[str, str]] | None
    unit: str
    score_name: str
    outcome_name: str
    title: str
    source: str
    period: str
    institution: str
    population: str


@dataclass(frozen=True)
class Fitting:
    """How a correction is fitted: keyword arguments of the estimators.

    Attributes
    ----------
    eta
        Share of an error that one adjustment removes. Default: 1
    order
        Order in which cells are visited; random uses --seed. Default: cyclic
    sample
        Measure errors on a new bootstrap sample in each sweep, drawn with --seed.
        Default: on all data
    min_share
        Smallest share of all people in a cell. Default: alpha * gamma / n-bins
    max_updates
        Most adjustments to make. Default: 100000
    start
        smooth: recalibrate with a smooth curve first. identity: begin with the raw
        score. Default: smooth
    guard
        noise: leave errors that could be chance. none: adjust every error beyond the
        tolerance. NUMBER: adjust errors of at least that many standard errors. Default:
        noise
    monotone
        Never turn a higher score into a lower one, within a combination of attributes.
        Default: --monotone
    features
        Columns to give points to, beside curve and groups, if that improves the score
        for people left out of the fit: age,acuity,visits.
    allow_reversed
        Fit even if higher scores go with fewer events (AUROC below 0.4).
    """

    eta: float | None = METHOD.option("SHARE")
    order: str | None = METHOD.option("cyclic|random|worst")
    sample: str | None = METHOD.option("bootstrap")
    min_share: float | None = METHOD.option("SHARE")
    max_updates: int | None = METHOD.option("N")
    start: str | None = METHOD.option("smooth|identity")
    guard: str | float | None = METHOD.option("noise|none|NUMBER")
    monotone: bool | None = METHOD.option("--monotone/--no-monotone")
    features: list[str] | None = METHOD.option("COLUMNS")
    allow_reversed: bool = METHOD.flag()
    unseen: str | None = UNSEEN


@dataclass(frozen=True)
class Searching:
    """Where groups are looked for: keyword arguments of `propcal.discover`.

    Attributes
    ----------
    features
        Columns by which groups may be described (required).
    protect
        Columns that a correction must not read, such as race: find groups, described by
        the other features, whose correction reduces the errors for the groups of these
        columns.
    depth
        Most conditions in a description. Default: 3
    min_share
        Smallest share of a group. Default: 0.02
    max_groups
        Most groups to find. Default: 10
    level
        Largest probability of finding any group if the score is right. Default: 0.05
    n_draws
        Simulated data sets for what chance alone would show. Default: 64
    """

    features: list[str] | None = DATA.option("COLUMNS")
    protect: list[str] | None = SEARCH.option("COLUMNS")
    depth: int = SEARCH.option("N", default=3, limits=COUNT | {"at_most": 3})
    min_share: float = SEARCH.option(
        "SHARE", default=0.02, limits={"above": 0, "at_most": 0.5}
    )
    max_groups: int = SEARCH.option("N", default=10, limits=COUNT | {"at_most": 50})
    level: float = SEARCH.option("PROBABILITY", default=0.05, limits=UP_TO_1)
    n_draws: int = SEARCH.option(
        "--draws N", default=64, limits={"at_least": 20, "whole": True}
    )
    random_state: int = field(
        default=0, metadata={"limits": {"at_least": 0, "whole": True}}
    )


@dataclass(frozen=True)
class Timing:
    """How time is divided, and what later periods are compared with.

    Attributes
    ----------
    time
        Column with the date of the score (ISO 8601).
    every
        Length of a period. Default: month
    timezone
        Time zone in which a day begins, such as Europe/Berlin. Default: UTC
    delay
        Wait this many days (d) or weeks (w) after the end of a period before adding it.
        Default: 0d
    outcome_time
        Column with the date of the outcome; outcomes before the score are refused.
    baseline
        Compare with the score as it was then (2025-01 or 2025-01..2025-06) instead of
        perfect calibration.
    """

    time: str | None = TIME.option("COLUMN")
    every: str | None = TIME.option("day|week|month|quarter|year")
    timezone: str | None = TIME.option("NAME")
    delay: str | None = TIME.option("30d")
    outcome_time: str | None = TIME.option("COLUMN")
    baseline: str | None = TIME.option("PERIOD")


@dataclass(frozen=True)
class Export:
    r"""SQL that corrects scores: keyword arguments of `Correction.to_sql`.

    Attributes
    ----------
    score
        Score column to correct. SQL needs it.
    dialect
        SQL dialect. The last three need propcal\[sql]; propcal's tests do not run them.
    table
        Table with one row per person: visits, or clinic.visits.
    types
        Type of a column: text, number or boolean. Default: found at run time, or
        inferred from the levels
    columns
        Name in the table of a column that the correction reads: race=RACE.
    form
        Create a lookup table for the query, or write its values into the query.
    lookup_table
        Name of the lookup table.
    column
        Name of the new column.
    invalid
        Corrected score where the score is NULL, NaN or not from 0 to 1: NULL, or the
        score.
    """

    score: str | None = DATABASE.option("COLUMN")
    dialect: str = DATABASE.option(
        "duckdb|sqlite|postgres|spark|tsql|snowflake|bigquery", default="duckdb"
    )
    table: str = DATABASE.option("TABLE", default="people")
    types: dict[str, str] | None = DATABASE.option("--type COLUMN=KIND")
    columns: dict[str, str] | None = DATABASE.option("--rename COLUMN=NAME")
    form: str = OUTPUT.option("lookup|values", default="lookup")
    lookup_table: str = OUTPUT.option("TABLE", default="propcal_lookup")
    column: str = OUTPUT.option("NAME", default="corrected")
    unseen: str | None = UNSEEN
    invalid: str = OUTPUT.option("null|keep", default="null")


@dataclass(frozen=True)
class Identity:
    """Names for sentences and headings; all of them are optional.

    A unit that is empty was not chosen yet; the empty text as a level labels a missing
    value.

    Attributes
    ----------
    title : str
        Title of the report.
    score : str
        What the score is called: "Sepsis risk".
    outcome : str
        What the outcome is: "death in hospital".
    unit : str
        Plural noun for those who are scored, such as patients. Default: people, or
        visits if a patient ID is given
    labels : dict, such as ``{"sex": {"F": "women", "M": "men"}}``
        What a level is called: sex.F=women.
    source : str
        Where the data are from.
    period : str
        The time that the data cover.
    institution : str
        The hospital or other site.
    population : str
        Who was scored: "adults admitted as emergencies".
    """

    title: str = NAMES.option("TEXT", default="")
    score: str = NAMES.option("--score-name TEXT", default="", argument="score_name")
    outcome: str = NAMES.option(
        "--outcome-name TEXT", default="", argument="outcome_name"
    )
    unit: str = NAMES.option("NOUN", default="")
    labels: Mapping[str, Mapping[str, str]] = NAMES.option("--label COLUMN.LEVEL=TEXT")
    source: str = NAMES.option("TEXT", default="")
    period: str = NAMES.option("TEXT", default="")
    institution: str = NAMES.option("TEXT", default="")
    population: str = NAMES.option("TEXT", default="")

    def __post_init__(self) -> None:
        for name in TEXTS:
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > MOST_LETTERS:
                given = f"{name}_name" if name in ("score", "outcome") else name
                raise refused("long text", given=given, most=MOST_LETTERS)
            object.__setattr__(self, name, plain(text).strip())
        labels = {} if self.labels is None else self.labels
        object.__setattr__(self, "labels", _checked_labels(labels))

    @property
    def subject(self) -> str:
        """The score at the beginning of a sentence."""
        return self.score or "The score"

    @property
    def within_sentence(self) -> str:
        """The score within a sentence."""
        return self.score or "the score"

    @property
    def everyone(self) -> str:
        """All who were audited, as a row of a table."""
        return f"All {self.unit}"

    def count(self, n: Any) -> str:
        """A number of them.

        >>> Identity(unit="patients").count(9104), Identity(unit="people").count(1)
        ('9,104 patients', '1 person')
        """
        return f"{IN_SENTENCE.count(n)} {self.noun(n)}"

    def worded(self, reason: str) -> str:
        """A reason that speaks of people, with their own noun.

        >>> Identity(unit="visits").worded("fewer than 50 people")
        'fewer than 50 visits'
        """
        return reason.replace("people", self.unit)

    def noun(self, n: Any = 2) -> str:
        """The noun that goes with a number."""
        return one_of(self.unit) if n == 1 else self.unit


def one_of(unit: str) -> str:
    """The singular of a plural noun, as far as English is regular.

    >>> one_of("people"), one_of("patients"), one_of("deliveries")
    ('person', 'patient', 'delivery')
    """
    if unit.endswith("people"):
        return unit.removesuffix("people") + "person"
    if unit.endswith("ies"):
        return unit.removesuffix("ies") + "y"
    return unit.removesuffix("s")


def _checked_labels(labels: Any) -> dict[str, dict[str, str]]:
    if not isinstance(labels, Mapping):
        raise refused("labels")
    checked = {}
    for attribute, own in labels.items():
        if not isinstance(own, Mapping):
            raise refused("labels")
        texts = {}
        for level, text in own.items():
            texts["" if level is None else str(level)] = plain(text)
        checked[str(attribute)] = texts
    return checked
