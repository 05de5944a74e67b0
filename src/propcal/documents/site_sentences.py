"""What was found across sites, in words that are made from claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from propcal.auditing.claims import Claim
from propcal.auditing.finding_names import NOT_ENOUGH, TOO_HIGH, TOO_LOW, UNTESTED
from propcal.identity import Identity
from propcal.monitoring.held_out import ALIKE, BETTER, FURTHER, NEARER, NONE, WORSE, Travel
from propcal.numbers import IN_SENTENCE, known, listed
from propcal.sites.site_measures import ALL_SITES, Sites

MOST_NAMED = 3
LOG_LOSS = {BETTER: "lower log loss", WORSE: "higher log loss"}


def headline(found: Sites) -> str:
    """The verdict in a few words."""
    claims, table, summary = found.claims, found.sites, found.summary
    if found.conclusion == NOT_ENOUGH:
        return "There are not enough data to judge the sites"
    if not claims:
        return "No miscalibration found"
    subject, kinds = found.identity.subject, {claim.kind for claim in claims}
    overall, groups = _of(claims, "overall"), _of(claims, "group")
    if overall:
        side = overall[0].direction
        more = "; the sites differ" if "beyond" in kinds else ""
        return f"{subject} predicts {side} {_where(side, table, summary)}{more}"
    if groups:
        sides = [[g for g in groups if g.direction == side] for side in (TOO_HIGH, TOO_LOW)]
        told = [f"{own[0].direction} at {_some_sites(own, len(table))}" for own in sides if own]
        return f"{subject} predicts {' and '.join(told)}"
    if "shape" in kinds:
        return f"Predictions are {_shape(_of(claims, 'shape')[0])}"
    return "The sites differ by more than chance explains"


def _where(side: str, table: pd.DataFrame, summary: pd.DataFrame) -> str:
    """At which sites an overall error is shown: each has its own finding, or 95 % are expected to have it."""
    if (table["finding"] == side).all():
        return "at both sites" if len(table) == 2 else f"at all {len(table)} sites"
    if "observed_expected" in summary.index:
        row: Any = summary.loc["observed_expected"]
        if row["prediction_high"] < 1 if side == TOO_HIGH else row["prediction_low"] > 1:
            return "at nearly all sites"
    return "over all sites together"


def _of(claims: Sequence[Claim], kind: str) -> list[Claim]:
    return [claim for claim in claims if claim.kind == kind]


def _some_sites(groups: Sequence[Claim], n: int) -> str:
    if len(groups) <= MOST_NAMED:
        return listed([g.label for g in groups])
    return f"all {n} sites" if len(groups) == n else f"{len(groups)} of {n} sites"


def _shape(claim: Claim) -> str:
    return "too extreme" if claim.estimate < 1 else "not extreme enough"


def site_sentences(found: Sites) -> tuple[str, ...]:
    """What was found, in words, from claims; numbers may be limits."""
    sentences = [_first(found.claims, found.pooled.loc[ALL_SITES], len(found.sites), found.identity)]
    if found.conclusion == NOT_ENOUGH:
        sentences.append("There are not enough data to judge them.")
    else:
        sentences += [*_differ(found.claims, found.sites, found.summary), *_new_site(found.summary)]
    return (*sentences, *([] if found.travel is None else [found.travel.sentence]))


def _first(claims: Sequence[Claim], pooled: Any, n: int, identity: Identity) -> str:
    """The O/E ratio of all sites together, the sites that are wrong, and the slope."""
    overall, groups, shape = (_of(claims, kind) for kind in ("overall", "group", "shape"))
    who = f"{'both' if n == 2 else f'all {n:,}'} sites together ({identity.count(pooled['people'])})"
    ratio = [pooled[f"observed_expected{end}"] for end in ("", "_low", "_high")]
    side = overall[0].direction if overall else ""
    told = f"Over {who}, "
    if overall:
        told += f"{_inside(identity.subject)} predicts {side}{_bracket(*ratio)}"
        if same := [g for g in groups if g.direction == side]:
            alone = f"each site by itself{_range(same)}" if len(same) == n else _some_sites(same, n)
            told += f", and at {alone}{'' if len(same) == n else ' taken alone'}"
    else:
        interval = IN_SENTENCE.interval(*ratio[1:])
        of = f" of {identity.score}" if identity.score else ""
        told += f"the O/E ratio{of} is {IN_SENTENCE.decimal(ratio[0])}"
        told += f" (95 % CI {interval})" if interval != IN_SENTENCE.unknown else ""
    sides = [[g for g in groups if g.direction == one] for one in (TOO_HIGH, TOO_LOW) if one != side]
    if parts := [f"{own[0].direction} at {_named(own, n)}" for own in sides if own]:
        told += f", but {'' if overall else _inside(identity.subject) + ' predicts '}{' and '.join(parts)}"
    if shape:
        slope = _bracket(shape[0].estimate, shape[0].low, shape[0].high, "calibration slope")
        told += f"{'; ' if overall or parts else ', but '}predictions are {_shape(shape[0])}{slope}"
    return f"{told}."


def _inside(subject: str) -> str:
    return "the score" if subject == "The score" else subject


def _bracket(value: Any, low: Any, high: Any, name: str = "O/E") -> str:
    """A number and its interval in parentheses, as far as they are shown."""
    if not known(value):
        return ""
    interval = IN_SENTENCE.interval(low, high)
    told = f", 95 % CI {interval}" if interval != IN_SENTENCE.unknown else ""
    return f" ({name} {IN_SENTENCE.decimal(value)}{told})"


def and_list(parts: Sequence[str]) -> str:
    """Parts with commas of their own, in parentheses."""
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


def _named(claims: Sequence[Claim], n: int) -> str:
    """A few sites by their names, with their O/E ratios; of many the number and the range."""
    if len(claims) > MOST_NAMED:
        return f"{len(claims)} of {n} sites{_range(claims)}"
    return and_list([f"{g.label}{_bracket(g.estimate, g.low, g.high)}" for g in claims])


def _range(claims: Sequence[Claim]) -> str:
    told = sorted((g for g in claims if known(g.estimate)), key=lambda g: g.estimate)
    if len(told) < 2:
        return ""
    ends = [f"{IN_SENTENCE.decimal(g.estimate)} at {g.label}" for g in (told[0], told[-1])]
    return f" (O/E {' to '.join(ends)})"


def _differ(claims: Sequence[Claim], table: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """Whether sites differ, and which of them from the others."""
    has = "observed_expected" in summary.index
    i2 = f" (I² {100 * float(summary.loc['observed_expected', 'i2']):.0f} %)" if has else ""  # type: ignore[arg-type]
    beyond, level = _of(claims, "beyond"), [c for c in claims if c.kind in ("overall", "group")]
    if not beyond and (len({c.direction for c in level}) > 1 or (level and level[0].kind == "group")):
        return []  # single sites are wrong
    if not beyond:
        return [f"No difference between the sites was found{i2}."]
    single = [claim for claim in beyond if claim.who]
    parts = []
    for word, side in (("lower", TOO_HIGH), ("higher", TOO_LOW)):
        if own := [claim for claim in single if claim.direction == side]:
            parts.append(f"{word} at {_named(own, len(table))}")
    which = f": it is {' and '.join(parts)}{_against(single[0])}" if parts else ""
    return [f"The O/E ratio differs between sites by more than chance explains{i2}{which}."]


def _against(claim: Claim) -> str:
    """The O/E ratio of the sites that were not named."""
    return f" than at the others{_bracket(claim.others, claim.others_low, claim.others_high)}"


def _new_site(summary: pd.DataFrame) -> list[str]:
    if "observed_expected" not in summary.index:
        return []
    row: Any = summary.loc["observed_expected"]
    ends = [IN_SENTENCE.decimal(row[f"prediction_{end}"]) for end in ("low", "high")]
    mean = IN_SENTENCE.decimal(row["mean"])
    return [
        f"The mean O/E ratio over sites is {mean}; at a new site, we expect one between {ends[0]} "
        f"and {ends[1]} (95 % prediction interval)."
    ]


def finding_text(row: Any) -> str:
    """What was found of the log loss, of the O/E ratio, and whether the corrected score is off."""
    parts = [LOG_LOSS.get(row["finding"], "")]
    parts.append(f"O/E {row['moved']}" if row["moved"] else "")
    parts.append(f"corrected score {row['level']}" if row["level"] else "")
    alone = row["finding"] if row["finding"] in (NONE, UNTESTED) else ALIKE
    return "; ".join(part for part in parts if part) or alone


def travel_sentence(found: Travel) -> str:
    """Whether a correction transfers, in words."""
    table, pooled = found.table, found.pooled
    n, none = int((table["finding"] != UNTESTED).sum()), int((table["finding"] == NONE).sum())
    others = "site" if len(table) == 2 else "sites"
    if none == n:
        return f"No fit on the other {others} found an error to correct."
    interval = IN_SENTENCE.interval(pooled.low, pooled.high)
    told = f"Corrected by a fit on the other {others}, the O/E ratio of all sites together is "
    told += f"{IN_SENTENCE.decimal(pooled.value)} (95 % CI {interval})"
    nearer, further = (table["moved"] == word for word in (NEARER, FURTHER))
    moved = [f"shown to be nearer to 1 than before at {_count(int(nearer.sum()), n)}"] if nearer.any() else []
    moved += [f"further from 1 at {_named_rows(table[further], n)}"] if further.any() else []
    sides = [(side, table[(table["level"] == side) & ~further]) for side in (TOO_HIGH, TOO_LOW)]
    off = [f"{side} at {_named_rows(own, n)}" for side, own in sides if len(own)]
    parts = [f"it is {' and '.join(moved)}"] if moved else []
    parts += [f"the corrected score is {' and '.join(off)}"] if off else []
    return f"{told}; {'; '.join(parts) or 'at no single site is the change clear'}."


def _count(some: int, n: int) -> str:
    if some == n:
        return "both sites" if n == 2 else f"all {n} sites"
    return f"{some} of {n} sites"


def _named_rows(rows: pd.DataFrame, n: int) -> str:
    """A few sites with the O/E ratio before and after, or how many."""
    if len(rows) > MOST_NAMED:
        return _count(len(rows), n)
    return and_list([f"{row['site']}{_moved(row)}" for _, row in rows.iterrows()])


def _moved(row: Any) -> str:
    before, after = (row[f"observed_expected_{when}"] for when in ("before", "after"))
    if not known(before) or not known(after):
        return ""
    interval = IN_SENTENCE.interval(row["observed_expected_after_low"], row["observed_expected_after_high"])
    return f" (from {IN_SENTENCE.decimal(before)} to {IN_SENTENCE.decimal(after)}, 95 % CI {interval})"
