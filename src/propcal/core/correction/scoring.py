"""Corrects the scores of people: arrays, frames of any engine, or one person, and says what moved them."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, TypeVar, Unpack, overload

from propcal.core.arguments import Invalid, Table, Unseen, Values
from propcal.core.correction.definition import Definition
from propcal.core.correction.explain import Explanation, explained
from propcal.core.grid import FloatArray
from propcal.core.groups import Labels
from propcal.errors import InputError, UnknownLevelWarning, plain

if TYPE_CHECKING:
    from propcal.scoring.one_person import OnePerson

Frame = TypeVar("Frame")


class Scored(NamedTuple):
    """A corrected score, and what a service should log beside it.

    Attributes
    ----------
    score : float
        The corrected score.
    unseen : tuple of str
        Attributes whose value did not occur in the fitting data, so that none of their groups applies.
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


class Scoring(Definition):
    """The methods of `Correction` that take people."""

    @cached_property
    def model_id(self) -> str:
        """A hash of all that its file says, but for the time and the notes of its users.

        Two fits of the same people with the same settings and version have the same.
        """
        from propcal.files.correction_file import model_id

        return model_id(self)

    @overload
    def apply(  # type: ignore[overload-overlap]  # a text is an array to numpy, but names a column here
        self, score: str, sensitive_features: Frame, *, column: str = ..., **how: Unpack[How]
    ) -> Frame: ...
    @overload
    def apply(self, score: Values, sensitive_features: Table = ..., **how: Unpack[How]) -> FloatArray: ...
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
        """Correct scores: arrays in, an array out; or a frame in, the same kind of frame out.

        Parameters
        ----------
        score : array-like of shape (n,), or the name of a column
            Raw scores in [0, 1]. A text names the column of the frame that holds them.
        sensitive_features : data frame, series or array with n rows
            The attributes of each person. A frame may have other columns too, in any order. If `score`
            is a name: a frame of pandas, polars (also lazy), pyarrow (a table, batch or reader of
            batches), DuckDB (a relation), Dask or PySpark.
        column : str, default "corrected"
            If `score` is a name: the name of the new column.
        n_updates : int, optional
            Apply only the first so many updates, of which a smooth start is the first; 0 returns
            the scores as they came.
        unseen : "replay", "keep" or "error", optional
            Overrides the policy of the correction.
        invalid : "error", "null" or "keep", default="error"
            What to do about a score that is missing or no probability: refuse all rows and say how many
            there are; give that row a missing corrected score (NaN, null); or keep its score as it is.

        Returns
        -------
        array of float64, or a frame
            A score that no update changes is returned as it came. A frame has the rows, columns, types
            and index that it had, and one more column. Where frames are lazy it is lazy too: rows
            are read when it is computed, in batches, and only then is a score that is missing or no
            probability told, with the count of the batch it is in.

        Examples
        --------
        >>> import pandas as pd
        >>> from propcal import PMCBoost
        >>> past = pd.DataFrame({"race": ["A", "B"] * 500, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
        >>> c = PMCBoost.paper().fit(past.risk, past.y, sensitive_features=past[["race"]]).correction_
        >>> people = pd.DataFrame({"race": ["A", "B"], "risk": [0.25, 0.25]})
        >>> c.apply(people.risk, people)
        array([0.05, 0.55])
        >>> c.apply("risk", people)
          race  risk  corrected
        0    A  0.25       0.05
        1    B  0.25       0.55
        """
        from propcal.data.rows import scoring_rows  # a door in; core itself knows no frames

        if isinstance(sensitive_features, str) and not isinstance(score, str):
            problem, step = "the name of the score's column comes first", 'apply("risk", frame)'
            raise InputError(problem, argument="score", next_step=step, between=": ")
        if isinstance(score, str):
            from propcal.scoring.scorer import Scorer, scored_frame

            scorer = Scorer(self, score, column, n_updates, unseen, invalid)
            return scored_frame(scorer, sensitive_features)
        rows = scoring_rows(score, sensitive_features, self, invalid=invalid)
        return self.apply_to_rows(rows, n_updates=n_updates, unseen=unseen, invalid=invalid)

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
        """Correct the score of one person: for services, some hundred times as fast as `apply` on one row.

        Parameters
        ----------
        score : float
            Raw score in [0, 1].
        invalid : "error", "null" or "keep", default="error"
            What to do about a score that is missing or no probability: refuse it, return NaN, or return
            it as it is.
        unseen : "replay", "keep" or "error", optional
            Overrides the policy of the correction for combinations that did not occur in fitting.
        detail : bool, default=False
            Return what a service should log: the corrected `score`, the attributes whose value is `unseen`,
            and the `model_id`. There is then no warning about unseen values.
        **columns
            The value of every column in `reads`, and no others but those in `not_read`, which are ignored;
            None if it is missing. For a name with spaces: ``**{"marital status": "single"}``.

        Returns
        -------
        float, or Scored
            What `apply` gives for this person, to the last bit. Values that did not occur in fitting are
            warned of in the same way, unless `detail` is true.

        Examples
        --------
        >>> import pandas as pd
        >>> from propcal import PMCBoost
        >>> past = pd.DataFrame({"race": ["A", "B"] * 500, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
        >>> c = PMCBoost.paper().fit(past.risk, past.y, sensitive_features=past[["race"]]).correction_
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
            `sentence` has it in words, `to_frame` in exact numbers, `plot` as a picture.

        Examples
        --------
        >>> import pandas as pd
        >>> from propcal import PMCBoost
        >>> past = pd.DataFrame({"race": ["A", "B"] * 500, "risk": 0.2, "y": [0, 1, 0, 0] * 250})
        >>> c = PMCBoost.paper().fit(past.risk, past.y, sensitive_features=past[["race"]]).correction_
        >>> print(c.explain([0.25], {"race": ["B"]}, unit="patients").sentence())
        0.250 becomes 0.550: +0.300 by the adjustment of B patients.
        """
        from propcal.data.rows import scoring_rows

        return explained(self, scoring_rows(score, sensitive_features, self), plain(unit), labels)
