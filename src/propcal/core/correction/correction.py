"""The correction: what users apply, explain, save, draw and export.

What it consists of is in `definition`; the maps that give the corrected score of each
raw score are in `maps`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import numpy as np

from propcal.core.arguments import Axes, Invalid, Table, Unseen, Values, check_choice
from propcal.core.correction.definition import Definition
from propcal.core.correction.explain import Explanation
from propcal.core.correction.points_table import NAME as POINTS
from propcal.core.correction.smooth_map import NAME as START
from propcal.core.correction.traced_steps import explained
from propcal.core.grid import UNIT, FloatArray, IntArray, from_grid
from propcal.core.groups import Labels, pattern_name
from propcal.errors import UnknownLevelWarning, plain, refused

if TYPE_CHECKING:
    import pandas as pd

    from propcal.export.sql import SqlExport
    from propcal.scoring.one_person import OnePerson


Frame = TypeVar("Frame")


class Scored(NamedTuple):
    """A corrected score, and what a service should log with it.

    Attributes
    ----------
    score : float
        The corrected score.
    unseen : tuple of str
        Attributes whose value did not occur in the fitting data, so that none of their
        groups applies.
    model_id : str
        The `model_id` of the correction.

    Examples
    --------
    >>> from propcal import PMCBoost
    >>> correction = PMCBoost().fit([0.5] * 400, [1, 0, 0, 0] * 100).correction_
    >>> scored = correction.score_one(0.5, detail=True)
    >>> scored.unseen, scored.model_id == correction.model_id
    ((), True)
    """

    score: float
    unseen: tuple[str, ...]
    model_id: str


class How(TypedDict, total=False):
    """Further arguments of `Correction.apply`."""

    n_updates: int | None
    unseen: Unseen | None
    invalid: Invalid


class Update(NamedTuple):
    """One change: people of `group` whose score was then in `bin` had `shift` added to
    it.

    The smooth start is an update too, the first: its shift depends on the score, and is
    NaN here.
    """

    group: str
    bin: str
    shift: float


@dataclass(frozen=True, eq=False)
class Correction(Definition):
    """Corrects scores, one person or a billion the same way, alone or in a batch.

    The smooth start, if there is one, and the updates, in order, are its definition;
    the maps are what they amount to for each pattern.

    Attributes
    ----------
    patterns : Patterns
        The combinations of attributes that were seen in fitting.
    groups : tuple of Group
    bins : Bins
    updates : array of int64, shape (n_updates, 3)
        Index of the group, index of the bin, shift in units of 2**-32.
    start : SmoothStart or None
        What a score goes through before the updates.
    unseen : "replay", "keep" or "error"
        What to do for a combination of attributes not seen in fitting: apply the
        updates of the groups that it does belong to, leave the score as it is, or raise
        an error.
    about : dict
        Where it comes from: method, parameters, version of propcal, score, outcome,
        number of people in a band, and the fingerprint of the fitting data; ``"shared":
        True`` if it is for release.
    sharing : Sharing or None
        What a shared file leaves out and rounds. Fitting knows it; a file does not hold
        it.
    monotone : bool
        Whether, within a pattern, a higher score never becomes a lower one: where the
        updates would make it so, the map is held at what lower scores have.
    folded : tuple of str
        Attributes whose rare levels were folded before fitting, as in atoms that may be
        shared: a level that is not listed counts as "other levels".
    points : PointsTable or None
        What each feature adds to the log-odds, after the smooth start and before the
        updates.

    Examples
    --------
    >>> from propcal import PMCBoost
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(5000, seed=1)
    >>> score = visits.true_risk / 2
    >>> model = PMCBoost()
    >>> model = model.fit(score, visits.admitted, sensitive_features=visits[["gender"]])
    >>> correction = model.correction_
    >>> round(float(correction.apply([0.2], {"gender": ["F"]})[0]), 1)
    0.4
    """

    @cached_property
    def model_id(self) -> str:
        """A hash of everything in its file except the time and the notes of its users.

        Two fits of the same people with the same settings and version have the same.
        """
        from propcal.formats.correction_file import model_id

        return model_id(self)

    @overload
    # a text is an array to numpy, but names a column here
    def apply(  # type: ignore[overload-overlap]
        self,
        score: str,
        sensitive_features: Frame,
        *,
        column: str = ...,
        **how: Unpack[How],
    ) -> Frame: ...
    @overload
    def apply(
        self, score: Values, sensitive_features: Table = ..., **how: Unpack[How]
    ) -> FloatArray: ...
    def apply(
        self,
        score: Values,
        sensitive_features: Table = None,
        *,
        column: str = "corrected",
        n_updates: int | None = None,
        unseen: Unseen | None = None,
        invalid: Invalid = "error",
    ) -> object:
        """Correct scores: arrays in, an array out; or a frame in, the same kind of
        frame out.

        Parameters
        ----------
        score : array-like of shape (n,), or the name of a column
            Raw scores in [0, 1]. A text names the column of the frame that holds them.
        sensitive_features : data frame, series or array with n rows
            The attributes of each person. A frame may have other columns too, in any
            order. If `score` is a name: a frame of pandas, polars (also lazy), pyarrow
            (a table, batch or reader of batches), DuckDB (a relation), Dask or PySpark.
        column : str, default "corrected"
            If `score` is a name: the name of the new column.
        n_updates : int, optional
            Apply only this number of updates, the recalibration being the first; 0
            returns the scores unchanged.
        unseen : "replay", "keep" or "error", optional
            Overrides the policy of the correction.
        invalid : "error", "null" or "keep", default="error"
            What to do about a score that is missing or no probability: refuse all rows
            and say how many there are; give that row a missing corrected score (NaN,
            null); or keep its score as it is.

        Returns
        -------
        array of float64, or a frame
            A score that no update changes is returned unchanged. A frame has the rows,
            columns, types and index that it had, and one more column. Where frames are
            lazy it is lazy too: rows are read when it is computed, in batches, and only
            then is a score that is missing or no probability told, with the count of
            the batch it is in.

        Examples
        --------
        >>> import pandas as pd
        >>> from propcal import PMCBoost
        >>> race = ["A", "B"] * 500
        >>> past = pd.DataFrame({"race": race, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
        >>> model = PMCBoost.paper()
        >>> c = model.fit(past.risk, past.y, sensitive_features=past.race).correction_
        >>> people = pd.DataFrame({"race": ["A", "B"], "risk": [0.25, 0.25]})
        >>> c.apply(people.risk, people)
        array([0.05, 0.55])
        >>> c.apply("risk", people)
          race  risk  corrected
        0    A  0.25       0.05
        1    B  0.25       0.55
        """
        # a door in; core itself knows no frames
        from propcal.reading.rows_to_score import scoring_rows

        if isinstance(sensitive_features, str) and not isinstance(score, str):
            raise refused("score column first")
        if isinstance(score, str):
            from propcal.scoring.scorer import Scorer, scored_frame

            scorer = Scorer(self, score, column, n_updates, unseen, invalid)
            return scored_frame(scorer, sensitive_features)
        rows = scoring_rows(score, sensitive_features, self, invalid=invalid)
        return self.apply_to_rows(
            rows, n_updates=n_updates, unseen=unseen, invalid=invalid
        )

    @cached_property
    def _one_person(self) -> OnePerson:
        from propcal.scoring.one_person import OnePerson

        return OnePerson(self)

    @overload
    def score_one(
        self,
        score: float,
        /,
        *,
        invalid: Invalid = "error",
        unseen: Unseen | None = None,
        detail: Literal[False] = False,
        **columns: object,
    ) -> float: ...
    @overload
    def score_one(
        self,
        score: float,
        /,
        *,
        invalid: Invalid = "error",
        unseen: Unseen | None = None,
        detail: Literal[True],
        **columns: object,
    ) -> Scored: ...
    def score_one(
        self,
        score: float,
        /,
        *,
        invalid: Invalid = "error",
        unseen: Unseen | None = None,
        detail: bool = False,
        **columns: object,
    ) -> float | Scored:
        """Correct the score of one person: for services, some hundred times as fast as
        `apply` on one row.

        Parameters
        ----------
        score : float
            Raw score in [0, 1].
        invalid : "error", "null" or "keep", default="error"
            What to do about a score that is missing or no probability: refuse it,
            return NaN, or return it as it is.
        unseen : "replay", "keep" or "error", optional
            Overrides the policy of the correction for combinations that did not occur
            in fitting.
        detail : bool, default=False
            Return what a service should log: the corrected `score`, the attributes
            whose value is `unseen`, and the `model_id`. There is then no warning about
            unseen values.
        **columns
            The value of every column in `reads`, and no others but those in `not_read`,
            which are ignored; None if it is missing. For a name with spaces:
            ``**{"marital status": "single"}``.

        Returns
        -------
        float, or Scored
            What `apply` gives for this person, to the last bit. Values that did not
            occur in fitting are warned of in the same way, unless `detail` is true.

        Examples
        --------
        >>> import pandas as pd
        >>> from propcal import PMCBoost
        >>> race = ["A", "B"] * 500
        >>> past = pd.DataFrame({"race": race, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
        >>> model = PMCBoost.paper()
        >>> c = model.fit(past.risk, past.y, sensitive_features=past.race).correction_
        >>> round(c.score_one(0.25, race="B"), 6)
        0.55
        >>> c.score_one(0.25, race="b", detail=True).unseen
        ('race',)
        """
        corrected, new, messages = self._one_person(score, columns, invalid, unseen)
        if detail:
            return Scored(corrected, new, self.model_id)
        for message in messages:
            warnings.warn(message, UnknownLevelWarning, stacklevel=2)
        return corrected

    def explain(
        self,
        score: Values,
        sensitive_features: Table = None,
        *,
        unit: str = "people",
        labels: Labels | None = None,
    ) -> Explanation:
        """Say which groups move these people's scores, and by how much.

        Parameters
        ----------
        score, sensitive_features
            As for `apply`.
        unit : str, default="people"
            What sentences call people, in the plural, such as "patients".
        labels : dict, optional
            What to call levels: ``{"sex": {"F": "women", "M": "men"}}``.

        Returns
        -------
        Explanation
            `sentence` has it in words, `to_frame` in exact numbers, `plot` as a
            picture.

        Examples
        --------
        >>> import pandas as pd
        >>> from propcal import PMCBoost
        >>> race = ["A", "B"] * 500
        >>> past = pd.DataFrame({"race": race, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
        >>> model = PMCBoost.paper()
        >>> c = model.fit(past.risk, past.y, sensitive_features=past.race).correction_
        >>> print(c.explain([0.25], {"race": ["B"]}, unit="patients").sentence())
        0.250 becomes 0.550: +0.300 by the adjustment of B patients.
        """
        from propcal.reading.rows_to_score import scoring_rows

        return explained(
            self, scoring_rows(score, sensitive_features, self), plain(unit), labels
        )

    @property
    def n_segments(self) -> int:
        """Straight pieces of all maps together."""
        return len(self._pieces[0])

    @cached_property
    def _pieces(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        return self.maps.pieces()

    def with_notes(self, **notes: object) -> Correction:
        """The correction with notes of its users, such as approvals and tickets, kept
        in ``about["user"]``.

        They may hold whatever JSON can, nested at most 8 levels deep, and do not change
        `model_id`.

        Examples
        --------
        >>> from propcal import PMCBoost
        >>> correction = PMCBoost().fit([0.2] * 1000, [0, 0, 0, 1] * 250).correction_
        >>> approved = correction.with_notes(ticket="CAB-17", approved_by="Committee")
        >>> approved.about["user"]["ticket"], approved.model_id == correction.model_id
        ('CAB-17', True)
        """
        from propcal.formats.correction_file import noted

        return replace(self, about=noted(self.about, notes))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Correction:
        """Read a correction from a JSON file; runs no code from it and checks
        everything in it.
        """
        from propcal.formats.correction_file import load_correction

        return load_correction(path)

    def save(self, path: str | PathLike[str], *, share: bool = False) -> None:
        """Write a JSON file (docs/reference/correction-file.md), all or nothing.

        Parameters
        ----------
        path : path
        share : bool, default=False
            Write it for release, as to another site; see `shared`. An exact file is
            for those who may see the fitting data: its numbers can give away how many
            people are in a small cell.
        """
        from propcal.formats.correction_file import save_correction

        save_correction(self.shared() if share else self, path)

    def to_json(self, *, share: bool = False) -> str:
        """The text of the file that `save` writes; only `save` adds the time, unless it
        is known.
        """
        from propcal.formats.correction_file import correction_to_json

        return correction_to_json(self.shared() if share else self)

    def shared(self) -> Correction:
        """The correction for release: it reveals nothing about fewer than 11
        people.

        It has no fingerprint of the fitting data, none of the combinations and groups
        of fewer than 11 people, and no update that fewer decided. Shifts are rounded to
        a step of at least 1 / people, at most 2**-3 and at least 2**-10. Only a
        correction that was just fitted can be shared, by
        ``model.correction_.save("model.json", share=True)``: a file does not say how
        many people there were.

        Share one correction of the same people only. A second one, fitted to nearly the
        same people, would reveal the outcome of a person who was added or removed.

        People with a combination that was left out are scored by the groups they belong
        to, which is what their map was before; with ``unseen="keep"`` or ``"error"``
        they count as never seen.
        """
        from propcal.protect.shared_corrections import shared

        return shared(self)

    @classmethod
    def from_json(cls, text: str) -> Correction:
        """A correction from the text of its file; what `to_json` gives."""
        from propcal.formats.correction_file import correction_from_json

        return correction_from_json(text)

    def plot(
        self, patterns: Sequence[str] | None = None, *, ax: Axes | None = None
    ) -> Axes:
        """Draw raw against corrected score for each pattern; returns the matplotlib
        axes.

        Parameters
        ----------
        patterns : list of str, optional
            Names of patterns, as in `to_frame`; otherwise the eight that change most.
        ax : matplotlib axes, optional
        """
        from propcal.documents.correction import correction_chart
        from propcal.render.matplotlib import draw

        return draw(correction_chart(self, patterns), ax)

    def to_code(self, language: str, *, unseen: Unseen | None = None) -> str:
        """One file that scores people without propcal, to the last bit as `score_one`
        does.

        It needs nothing but the language itself. It knows where the correction comes
        from (``ABOUT``), and tests itself with ``--check``.

        Parameters
        ----------
        language : "python", "javascript" or "r"
        unseen : "replay", "keep" or "error", optional
            Overrides the policy of the correction. "replay" lists every combination of
            known levels and others, at most 10,000.

        Returns
        -------
        str
            The text of the file. In JavaScript and R every number is a double: a level
            that is a number they cannot hold exactly is refused.
        """
        from propcal.export.scorer_files import export_code

        return export_code(self, language, unseen=unseen)

    def to_sql(
        self,
        dialect: str = "duckdb",
        *,
        score: str,
        table: str | Sequence[str] = "people",
        form: str = "lookup",
        column: str = "corrected",
        lookup_table: str | Sequence[str] = "propcal_lookup",
        unseen: Unseen | None = None,
        types: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        invalid: str = "null",
    ) -> SqlExport:
        """SQL that corrects the scores of a table where it is, to the last bit as
        `apply` does.

        Parameters
        ----------
        dialect : str, default="duckdb"
            "duckdb", "sqlite", "postgres", "spark", "tsql", "snowflake" or "bigquery".
            The last three are written by sqlglot (``pip install "propcal[sql]"``) and
            are not run by the tests of propcal.
        score : str
            Column with the score.
        table : str or sequence of str, default="people"
            Table with the score and the columns that the correction reads. Dots
            separate schema and table; where a name has a dot itself, give the parts as
            a list.
        form : "lookup" or "values"
            A lookup table and a query that reads it, or a query that contains the rows
            of the table, so that none has to be created.
        column : str, default="corrected"
            Name of the new column.
        lookup_table : str or sequence of str, default="propcal_lookup"
            Name of the lookup table; within a query, it has no schema.
        unseen : "replay", "keep" or "error", optional
            Overrides the policy of the correction. "error" gives NULL; "replay" lists
            every combination of known levels and others, at most 10,000.
        types : dict, optional
            What columns hold in the database: "text", "number" or "boolean". DuckDB,
            SQLite, PostgreSQL and Spark find out; for the others it is guessed from the
            levels.
        columns : dict, optional
            What columns are called in the database, where that is not as in fitting.
        invalid : "null" or "keep", default="null"
            What a score that is NULL, NaN or outside [0, 1] gives: NULL, or itself. A
            query cannot refuse a row, as `apply` does with "error".

        Returns
        -------
        SqlExport
            ``str()`` of it is the script; its parts are `setup` and `query`.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        from propcal.export.sql import export_sql

        return export_sql(self, **given)

    def _repr_html_(self) -> str:
        from propcal.documents.correction import correction_document
        from propcal.render.html import card

        return card(correction_document(self))

    def to_frame(self, kind: str = "maps") -> pd.DataFrame:
        """Show the correction as a table.

        Parameters
        ----------
        kind : "maps" or "updates"
            "maps": for each pattern the pieces of its map, a raw score from
            `score_from` up to `score_to` becoming ``slope * score + intercept``.
            "updates": the updates, in order.
        """
        import pandas as pd

        check_choice("kind", kind, ("maps", "updates"))
        if kind == "updates":
            return pd.DataFrame(self.update_list(), columns=list(Update._fields))
        owner, begin, slope, intercept = self._pieces
        n_patterns = len(self.patterns)
        names = [pattern_name(self.patterns, p) for p in range(n_patterns)]
        is_last = np.append(owner[1:] != owner[:-1], True)
        end = np.where(is_last, UNIT, np.append(begin[1:], UNIT))
        columns: dict[str, Any] = {
            "pattern": np.array(names, dtype=object)[owner],
            "score_from": from_grid(begin),
            "score_to": from_grid(end),
            "slope": slope,
            "intercept": intercept,
        }
        return pd.DataFrame(columns)

    def update_list(self) -> list[Update]:
        """The updates in words and plain numbers."""
        updates = []
        if self.start is not None:
            updates.append(Update(START, "[0, 1]", nan))
        if self.points is not None:
            updates.append(Update(POINTS, "[0, 1]", nan))
        names = [group.name for group in self.groups]
        labels = self.bins.labels
        for group, j, shift in self.updates.tolist():
            updates.append(Update(names[group], labels[j], shift / UNIT))
        return updates

    def __repr__(self) -> str:
        settings = [
            f"{name}={self.about[name]:g}"
            for name in ("alpha", "gamma", "rho", "eta")
            if name in self.about
        ]
        method = plain(self.about.get("method", "hand"))
        columns = plain(", ".join(self.reads)) or "no columns"
        attributes = plain(" x ".join(self.attributes)) or "everybody"
        bins = f"{len(self.bins)} {self.bins.kind} bins"
        lines = [
            f"Correction by {method} ({', '.join(settings)})",
            f"  reads    {columns}",
            f"  groups   {len(self.groups)} of {attributes}, {bins}",
        ]
        if self.start is not None:
            n_terms = len(self.start.groups)
            lines.append(f"  start    smooth, {n_terms} terms; it counts as an update")
        if self.points is not None:
            features = plain(", ".join(self.points.columns))
            lines.append(f"  points   of {features}; they count as an update")
        segments = f"{self.n_segments:,} segments in {len(self.patterns)} patterns"
        lines.append(f"  updates  {self.n_updates:,}; {segments}")
        if len(self.updates):
            lines.append(f"  largest  {self._largest_update()}")
        return "\n".join(lines)

    def _largest_update(self) -> str:
        n_before = self.n_updates - len(self.updates)
        largest = n_before + int(np.argmax(np.abs(self.updates[:, 2])))
        update = self.update_list()[largest]
        return f"{plain(update.group)}, scores in {update.bin}: {update.shift:+.4f}"
