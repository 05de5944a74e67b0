"""Results that print themselves: in a terminal, a notebook, as a page and as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from propcal.core.arguments import FEWEST_SHOWN, Axes
from propcal.options import Correcting

if TYPE_CHECKING:
    from propcal.core.correction.fit_summary import FitSummary
    from propcal.documents.blocks import Document


class Printed:
    """What all results have in common: a document that can be shown, and written as a
    page.
    """

    def _document(self, suppress: int = 0, title: str | None = None) -> Document:
        """What the result says; with `suppress`, counts are protected."""
        raise NotImplementedError

    def to_html(
        self,
        path: str | PathLike[str] | None = None,
        *,
        suppress: int = FEWEST_SHOWN,
        title: str | None = None,
    ) -> str:
        """One page for everyone who must decide; it is one file that needs nothing
        else.

        Counts are protected as in the report of an audit; `suppress=0` shows
        everything.
        """
        from propcal.render.html import html, write_page

        return write_page(html(self._document(suppress, title)), path)

    def __repr__(self) -> str:
        from propcal.render.text import as_text, text

        return as_text(text(self._document()))

    def _repr_html_(self) -> str:
        from propcal.render.html import card

        return card(self._document())


class Drawn(Printed):
    """Results with pictures of their groups."""

    def _charts(self) -> Mapping[str, Callable[..., Any]]:
        """The functions that make charts, by name; the first is drawn by default."""
        raise NotImplementedError

    def plot(
        self,
        kind: str | None = None,
        groups: Sequence[str] | None = None,
        *,
        ax: Axes | None = None,
        width: float = 6.4,
    ) -> Axes:
        """Draw it with matplotlib (extra `plots`), in colours that everybody can tell
        apart.

        Parameters
        ----------
        kind : str, optional
            Of an audit, "forest" (the default: O/E ratios), "calibration" (curves),
            "heatmap" (the gap of every cell), "dc" (the groups furthest apart in each
            bin), "decision" (net benefit) or "distribution" (how the scores are
            spread). Of a comparison, "before_after" (O/E ratios, group by group, under
            every score). Of a monitor, "evidence" (the default: over time, with the
            alarm line) or "ratios" (the O/E ratio of each period, with its ordinary 95
            % interval if at most four groups are drawn).
        groups : list of str, optional
            Names of the groups to draw, as in `groups`. None draws all of them, or
            those that the score is furthest off for, and says so; "ratios" are by
            default of everybody and of the groups that the verdict names.
        ax : matplotlib axes, optional
        width : float, default=6.4
            Inches of a new figure; 3.5 is a column of a journal.

        Returns
        -------
        The axes.
        """
        from propcal.documents.audit_charts import chart_of
        from propcal.render.matplotlib import draw

        charts = self._charts()
        if kind is None:
            kind = next(iter(charts))
        return draw(chart_of(charts, kind, self, groups), ax, width)


class Pages(Drawn):
    """What an audit and a comparison have in common."""

    def _document(self, suppress: int = 0, title: str | None = None) -> Document:
        from propcal.documents.report import report

        return report(self, suppress=suppress, title=title)

    def to_html(
        self,
        path: str | PathLike[str] | None = None,
        *,
        suppress: int = FEWEST_SHOWN,
        title: str | None = None,
        correction: Correcting | None = None,
        certificate: FitSummary | None = None,
        discovery: object = None,
    ) -> str:
        """One page for everyone who must decide: the verdict in plain words, pictures,
        tables, methods.

        The page of a comparison is that of the last score, with what changed from the
        base.

        Parameters
        ----------
        path : path, optional
            Where to write it, whole or not at all; it is one file that needs nothing
            else.
        suppress : int, default=11
            Protect counts: fewer than 11 people with the outcome, or without it, are
            shown as "fewer than 11", and other counts are changed by up to 2. Findings
            and statistics are those of the audit. 0 shows everything.
        title : str, optional
        correction : Correction or fitted PMCBoost or MCBoost, optional
            Show what it does to the score, and its certificate if it has one.
        certificate : FitSummary, optional
        discovery : Discovery, optional
            Add a section on the groups that `propcal.discover` found.

        Returns
        -------
        str
            The page.
        """
        from propcal.documents.report import report
        from propcal.render.html import html, write_page

        document = report(
            self,
            suppress=suppress,
            title=title,
            correction=correction,
            certificate=certificate,
            discovery=discovery,
        )
        return write_page(html(document), path)

    def to_markdown(
        self,
        path: str | PathLike[str] | None = None,
        *,
        suppress: int = FEWEST_SHOWN,
        title: str | None = None,
        discovery: object = None,
    ) -> str:
        """The page in short, as Markdown text; arguments as for `to_html`."""
        from propcal.documents.report import report
        from propcal.render.html import write_page
        from propcal.render.markdown import markdown

        document = report(self, suppress=suppress, title=title, discovery=discovery)
        return write_page(markdown(document), path)

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON (src/propcal/schemas/audit.schema.json).

        `suppress=11` protects counts, as on a page; None and 0 do not.
        """
        from propcal.documents.data import json_text

        data = self._document(suppress or 0).data
        assert data is not None
        return json_text(data())
