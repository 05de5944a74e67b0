"""Discovery: the groups that a search found, as sentences, a table, a picture and ordinary `Groups`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from propcal.core.groups.groups import Groups
from propcal.discovery.finding_rows import FoundGroup, whole
from propcal.discovery.leaks import LEAK
from propcal.discovery.outcome_counts import DiscoverySource
from propcal.discovery.rounds import WHOLE
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, p_equals, plural
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.discovery.repairs import Protection

COLUMNS = tuple(FoundGroup.__dataclass_fields__)
MOST_NAMED = 5  # columns that a sentence names


@dataclass(frozen=True, eq=False)
class Discovery:
    """The groups for whom a score is wrong, found among all groups that the features can describe.

    Attributes
    ----------
    found : tuple of FoundGroup
        The strongest first. Each later one was found with the earlier ones corrected for.
    overall : dict
        The score as a whole: `found` (whether one smooth curve for everybody improves it), `p_value`,
        `observed`, `predicted`, `people`, `events`.
    left_out : dict
        Columns that were not searched, and why.
    protection : Protection or None
        How much the groups repair the protected groups; only with `protect`.
    settings : dict
    """

    found: tuple[FoundGroup, ...]
    overall: Mapping[str, Any]
    left_out: Mapping[str, str]
    settings: Mapping[str, Any]
    identity: Identity = field(default_factory=lambda: Identity(unit="people"))
    enough: bool = True
    protection: Protection | None = None
    _source: DiscoverySource | None = None

    def __len__(self) -> int:
        return len(self.found)

    def __bool__(self) -> bool:
        return True  # also if no group was found

    @property
    def groups(self) -> Groups:
        """The groups as a definition for `audit`, `PMCBoost`, SQL and everything else that takes `Groups`."""
        where = {group.name: group.condition for group in self.found}
        return Groups(columns=[], where=where, intersections="marginal")

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the groups are made of."""
        recipes = self.groups.recipes().values()
        return tuple(dict.fromkeys(name for recipe in recipes for name in recipe.columns))

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, in sentences."""
        findings = [group.sentence(self.identity) for group in self.found]
        return (*self._overview(), *findings, *self._rest())

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    def _overview(self) -> list[str]:
        people = self.identity.count(self.settings["people"])
        searched = f"{people}, {plural(self.settings['features'], 'feature')}"
        told = []
        if not self.enough:
            n = whole(self.overall["events"])
            events = f"{IN_SENTENCE.count(n)} event{'' if n == 1 else 's'}"
            return [f"There are not enough data to search ({searched}, {events})."]
        if self.overall["found"]:
            rates = (
                f"observed {IN_SENTENCE.percent(self.overall['observed'])}, "
                f"predicted {IN_SENTENCE.percent(self.overall['predicted'])}"
            )
            told.append(
                f"{self.identity.subject} as a whole is miscalibrated ({p_equals(self.overall['p_value'])}; "
                f"{rates}): one smooth curve for everybody improves it"
                + (", also after correction for the groups below." if self.found else ".")
                + " Fitting a correction (PMCBoost, propcal fit) recalibrates it as a whole as well."
            )
        elif any(group.corrected_for == WHOLE for group in self.found):
            told.append(
                f"{self.identity.subject} was recalibrated as a whole before the search. The groups below "
                "explain its overall error, so that the whole needs no further recalibration."
            )
        subject = "the recalibrated score" if self.overall["found"] else "the score"
        if not self.found:
            told.append(
                f"No group was found for whom {subject} is wrong by more than chance explains ({searched}, "
                f"up to {plural(self.settings['depth'], 'condition')}). This is not proof of calibration."
            )
            return told
        told.append(
            f"{plural(len(self.found), 'group')} {'was' if len(self.found) == 1 else 'were'} found for whom "
            f"{subject} is wrong by more than chance explains ({searched})."
        )
        return told

    def _rest(self) -> list[str]:
        told = [*self.protection.sentences] if self.protection is not None else []
        leaks_first = sorted(self.left_out.items(), key=lambda one: LEAK not in one[1])
        n_leaks = sum(LEAK in why for why in self.left_out.values())
        named = leaks_first[: max(MOST_NAMED, n_leaks)]
        told += [f"Not searched: {name} ({why})." for name, why in named]
        more = len(self.left_out) - len(named)
        was = "was" if more == 1 else "were"
        return [*told, f"{plural(more, 'further column')} {was} not searched."] if more > 0 else told

    def to_frame(self) -> pd.DataFrame:
        """A row for each group; the columns are the attributes of `FoundGroup`."""
        rows = [asdict(group) | {"also": "; ".join(group.also)} for group in self.found]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON.

        `suppress=11` computes all numbers from counts that are protected, as for a page; None and 0 do not.
        Numbers that are suppressed, or only known to lie below or above another one, are null.
        """
        from propcal.disclosure.protected_discovery import protected_discovery
        from propcal.output.json import discovery_to_json

        return discovery_to_json(protected_discovery(self, suppress))

    def plot(self, *, ax: Any = None, width: float = 6.4) -> Any:
        """Draw observed and predicted rates of each group (extra `plots`). Returns the axes."""
        from propcal.output.plots.discovery_plot import plot_discovery

        return plot_discovery(self, ax=ax, width=width)

    def __repr__(self) -> str:
        return "\n".join(plain(sentence) for sentence in self.sentences)

    def _repr_html_(self) -> str:
        from propcal.output.notebook import discovery_html

        return discovery_html(self)
