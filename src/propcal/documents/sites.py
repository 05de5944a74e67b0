"""What was found across sites: sentences from claims, forest and funnel pictures, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.claims import Claim
from propcal.auditing.names import (
    CHANCE,
    HEADLINES,
    HIGHER,
    LOWER,
    NONE_FOUND,
    NOT_ENOUGH,
    TOO_HIGH,
    TOO_LOW,
    UNTESTED,
)
from propcal.documents.blocks import (
    RATIO,
    At,
    Block,
    Document,
    Items,
    Section,
    Table,
    Verdict,
    estimate_columns,
    named_texts,
)
from propcal.documents.charts import (
    LOOKS,
    SIDES,
    Axis,
    Forest,
    ForestRow,
    Mark,
    Plot,
    axis_around,
    ratio_axis,
    round_axis,
)
from propcal.documents.words import table, words
from propcal.identity import Identity
from propcal.monitoring.held_out import BETTER, FURTHER, NEARER, NONE, WORSE, Travel
from propcal.numbers import IN_SENTENCE, ON_PAGE, excludes_one, in_parentheses, known, listed, without_limits
from propcal.sites.site_claims import TOO_SMALL
from propcal.sites.site_measures import ALL_SITES, SCALES, Sites

MOST_NAMED = 3
PREDICTION = ["prediction_low", "prediction_high"]
UNINFORMATIVE = 30  # times the lower end: prediction intervals that wide are not told
UNCLEAR = "neither better nor worse is shown"
LOG_LOSS = {BETTER: "lower log loss", WORSE: "higher log loss"}
DEFINITION = "O/E: observed over expected events; below 1 the score predicts too high, above 1 too low."
SUBGROUPS = "Subgroups were not tested here; use propcal audit."
MEANING = {
    RATIO: " Below 1 the score predicts too high, above 1 too low.",
    "slope": " Below 1 the predictions are too extreme, above 1 not extreme enough.",
}


def sites_document(found: Sites, title: str | None = None) -> Document:
    """The document of a comparison of sites."""
    names = found.identity
    return Document(
        brand="Comparison of sites",
        title=title or names.title or names.score or f"Risk score at {len(found.sites)} sites",
        about=named_texts(Score=names.score, Outcome=names.outcome, Source=names.source, Period=names.period),
        blocks=[_verdict(found, SUBGROUPS), Section("sites", "Measures of each site", _measures(found))],
    )


def sites_section(found: Sites) -> Section:
    """Sites as a part of the report of an audit."""
    return Section("sites", "Sites", [_verdict(found), *_measures(found)], link="Sites", places=At.PAGE)


def _verdict(found: Sites, untested: str = "") -> Verdict:
    """Without a tick: that sites do not differ does not show that the score is right at any of them."""
    nothing = found.conclusion == NONE_FOUND
    tone = HEADLINES[NOT_ENOUGH if nothing else found.conclusion].tone
    sentences = [*found.sentences, *([untested] if untested and nothing else [])]
    return Verdict(tone, found.headline, sentences, subject="Sites", explanation=DEFINITION)


def _measures(found: Sites) -> list[Block]:
    shown = [
        name for name in (RATIO, "slope", "auroc") if np.isfinite(without_limits(found.sites[name])).any()
    ]
    blocks: list[Block] = [_forest(found, name) for name in shown]
    blocks += [*_funnel(found), _table(found), *_summary(found), *_travel(found)]
    return [*blocks, Items("Notes", found.notes)]


def _table(found: Sites) -> Table:
    n = int(found.small.sum())
    together = f"{n:,} small sites together" if n > 1 else "1 small site"
    rows = [
        dict.fromkeys(found.sites.columns, np.nan)
        | dict(row)
        | {"site": "All sites together" if name == ALL_SITES else together, "finding": ""}
        for name, row in found.pooled.iterrows()
    ]
    tested = CHANCE if found.conclusion != NOT_ENOUGH else NOT_ENOUGH
    rows[0]["finding"] = next((c.direction for c in found.claims if c.kind == "overall"), tested)
    rows += row_dicts(found.sites[~found.small])
    unadjusted = [row for row in rows if row["finding"] == CHANCE and _excludes_one(row)]
    for row in unadjusted:
        row["finding"] = f"{CHANCE} +"
    measures = []
    for name in ("intercept", "slope", "auroc"):
        heading, digits = SCALES[name].name.removeprefix("Calibration "), SCALES[name].digits
        measures += estimate_columns(name, heading, digits, places=At.PAGE)
    names = found.identity
    small = names.worded(TOO_SMALL) if found.small.any() else ""
    texts = {"unit": names.unit, "unadjusted": unadjusted, "small": small}
    return table("each-site", rows, measures=measures, **texts)


def _excludes_one(row: Any) -> bool:
    return excludes_one(row[f"{RATIO}_low"], row[f"{RATIO}_high"])


def _summary(found: Sites) -> list[Block]:
    rows = row_dicts(found.summary.rename_axis("measure").reset_index())
    for row in rows:
        row |= {"name": SCALES[row["measure"]].name, "digits": SCALES[row["measure"]].digits}
        row["tau2"] = f"{row['tau2']:.4f}"
    return [table("summary", rows)] if rows else []


def _forest(found: Sites, name: str) -> Forest:
    scale, rows = SCALES[name], []
    for row in row_dicts(found.sites[~found.small]):
        wrong = name == RATIO and row["finding"] in (TOO_HIGH, TOO_LOW)
        look = LOOKS[row["finding"]] if wrong else "noise"
        rows.append(_forest_row(row["site"], _estimate(row, name), scale.digits, look))
    description = f"{scale.name} of each site with its 95 % confidence interval"
    if name in found.summary.index:
        mean, low, high, *new = found.summary.loc[name, ["mean", "low", "high", *PREDICTION]]
        rows = [_forest_row("All sites (mean, 95 % CI)", [mean, low, high], scale.digits), *rows]
        rows.append(_forest_row("New site (95 % prediction)", [np.nan, *new], scale.digits))
        description += ", the mean over sites, and the interval in which 95 % of new sites are expected"
    description += f".{MEANING.get(name, '')}"
    ends, axis = SIDES if name == RATIO else ("", ""), _forest_axis(rows, scale)
    return Forest(f"forest-{name}", scale.name, description, axis, rows, scale.right, ends)


def _estimate(row: Mapping[str, Any], name: str) -> list[Any]:
    return [row[f"{name}{end}"] for end in ("", "_low", "_high")]


def _forest_row(label: str, estimate: Sequence[Any], digits: int, look: str = "noise") -> ForestRow:
    value, low, high = estimate
    text = ON_PAGE.estimate(value, low, high, digits)
    value, low, high = without_limits(estimate)
    return ForestRow(str(label), value, low, high, look, text=text)


def _forest_axis(rows: Sequence[ForestRow], scale: Any) -> Axis:
    ends = [end for row in rows for end in (row.low, row.high, row.value)]
    if scale is SCALES[RATIO]:
        return ratio_axis(ends)
    return axis_around([*ends, scale.right], scale.name)


def _funnel(found: Sites) -> list[Block]:
    """Log O/E of each site against its standard error, with the lines between which 95 % lie by chance."""
    table = found.sites[~found.small]
    value = np.array(without_limits(table[RATIO]))
    error = table[f"{RATIO}_error"].to_numpy(dtype=np.float64)
    there = np.isfinite(value) & np.isfinite(error) & (value > 0)
    if there.sum() < 3 or RATIO not in found.summary.index:
        return []
    mean, most = float(found.summary["mean"].to_dict()[RATIO]), float(error[there].max()) * 1.1
    reach = np.exp(max(1.96 * most, float(np.abs(np.log(value[there] / mean)).max()) * 1.1))
    x = round_axis("O/E ratio", mean / reach, mean * reach, log=True)
    y = round_axis("standard error (log O/E)", most, 0.0, most=4)
    side = np.exp(1.96 * most)
    marks = [
        Mark("line", "guide", [mean / side, mean, mean * side], [most, 0.0, most]),
        Mark("line", "all-thin", [mean, mean], [0.0, most]),
        Mark("points", "all-line", value[there], error[there], names=table["site"][there].tolist()),
    ]
    heading, description = "Funnel plot: sites by their precision", words("pictures", "funnel")
    return [Plot("funnel", heading, description, x, y, marks, 500, 256)]


def _travel(found: Sites) -> list[Block]:
    if found.travel is None:
        return []
    rows = [row | {"finding": finding_text(row)} for row in row_dicts(found.travel.table)]
    blocks: list[Block] = [table("travel", rows)]
    bars = []
    for row in rows:
        for label, when in ((row["site"], "before"), ("after correction", "after")):
            bars.append(_forest_row(label, _estimate(row, f"{RATIO}_{when}"), SCALES[RATIO].digits))
    if not any(known(bar.value) for bar in bars):
        return blocks
    heading = "O/E ratio before and after"
    description = "O/E ratio of each site, before and after a correction that was fitted on the other sites."
    axis = _forest_axis(bars, SCALES[RATIO])
    return [Forest("forest-travel", heading, description, axis, bars), *blocks]


def headline(found: Sites) -> str:
    """The verdict in a few words."""
    claims, table, summary = found.claims, found.sites, found.summary
    if found.conclusion == NOT_ENOUGH:
        return "There are not enough data to judge the sites"
    if not claims:
        return "No difference between sites found"
    subject, kinds = found.identity.subject, {claim.kind for claim in claims}
    overall, groups = _of(claims, "overall"), _of(claims, "group")
    if overall:
        side = overall[0].direction
        more = "; the sites differ" if "beyond" in kinds else ""
        return f"{subject} predicts {side} {_where(side, table, summary)}{more}"
    if groups:
        sides = [(side, _on_side(groups, side)) for side in (TOO_HIGH, TOO_LOW)]
        told = [f"{side} at {_some_sites(some, len(table))}" for side, some in sides if some]
        return f"{subject} predicts {' and '.join(told)}"
    if "shape" in kinds:
        return f"Predictions are {_shape(_of(claims, 'shape')[0])}"
    return "The sites differ by more than chance explains"


def _where(side: str, table: pd.DataFrame, summary: pd.DataFrame) -> str:
    """At which sites an overall error is shown: each has its own finding, or 95 % are expected to have it."""
    if (table["finding"] == side).all():
        return "at both sites" if len(table) == 2 else f"at all {len(table)} sites"
    if RATIO in summary.index:
        row: Any = summary.loc[RATIO]
        if row["prediction_high"] < 1 if side == TOO_HIGH else row["prediction_low"] > 1:
            return "at nearly all sites"
    return "over all sites together"


def _of(claims: Sequence[Claim], kind: str) -> list[Claim]:
    return [claim for claim in claims if claim.kind == kind]


def _on_side(claims: Sequence[Claim], side: str) -> list[Claim]:
    return [claim for claim in claims if claim.direction == side]


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
    ratio = _estimate(pooled, RATIO)
    side = overall[0].direction if overall else ""
    told = f"Over {who}, "
    if overall:
        told += f"{identity.within_sentence} predicts {side}{_bracket(*ratio)}"
        if same := _on_side(groups, side):
            alone = f"each site by itself{_range(same)}" if len(same) == n else _some_sites(same, n)
            told += f", and at {alone}{'' if len(same) == n else ' taken alone'}"
    else:
        of = f" of {identity.score}" if identity.score else ""
        interval = in_parentheses(IN_SENTENCE.ci(*ratio[1:]))
        told += f"the O/E ratio{of} is {IN_SENTENCE.decimal(ratio[0])}{interval}"
        told += ", which could be chance with so many tests" if _excludes_one(pooled) else ""
    others = [(one, _on_side(groups, one)) for one in (TOO_HIGH, TOO_LOW) if one != side]
    if parts := [f"{one} at {_named(some, n)}" for one, some in others if some]:
        told += f", but {'' if overall else identity.within_sentence + ' predicts '}{' and '.join(parts)}"
    if shape:
        slope = _bracket(shape[0].estimate, shape[0].low, shape[0].high, "calibration slope")
        told += f"{'; ' if overall or parts else ', but '}predictions are {_shape(shape[0])}{slope}"
    return f"{told}."


def _bracket(value: Any, low: Any, high: Any, name: str = "O/E") -> str:
    """A number and its interval in parentheses, as far as they are shown."""
    number = f"{name} {IN_SENTENCE.decimal(value)}"
    return in_parentheses(number, IN_SENTENCE.ci(low, high)) if known(value) else ""


def _named(claims: Sequence[Claim], n: int) -> str:
    """A few sites by their names, with their O/E ratios; of many the number and the range."""
    if len(claims) > MOST_NAMED:
        return f"{len(claims)} of {n} sites{_range(claims)}"
    return listed([f"{g.label}{_bracket(g.estimate, g.low, g.high)}" for g in claims], commas=True)


def _range(claims: Sequence[Claim]) -> str:
    told = sorted((g for g in claims if known(g.estimate)), key=lambda g: g.estimate)
    if len(told) < 2:
        return ""
    ends = [f"{IN_SENTENCE.decimal(g.estimate)} at {g.label}" for g in (told[0], told[-1])]
    return f" (O/E {' to '.join(ends)})"


def _differ(claims: Sequence[Claim], table: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """Whether sites differ, and which of them from the others."""
    has = RATIO in summary.index
    i2 = f" (I² {100 * float(summary.loc[RATIO, 'i2']):.0f} %)" if has else ""  # type: ignore[arg-type]
    beyond, level = _of(claims, "beyond"), [c for c in claims if c.kind in ("overall", "group")]
    if not beyond and (len({c.direction for c in level}) > 1 or (level and level[0].kind == "group")):
        return []  # single sites are wrong
    if not beyond:
        return [f"No difference between the sites was found{i2}."]
    single, which = [claim for claim in beyond if claim.who], ""
    sides = [(word, _on_side(single, word)) for word in (LOWER, HIGHER)]
    if parts := [f"{word} at {_named(some, len(table))}" for word, some in sides if some]:
        others = _bracket(single[0].others, single[0].others_low, single[0].others_high)
        which = f": it is {' and '.join(parts)} than at the others{others}"
    return [f"The O/E ratio differs between sites by more than chance explains{i2}{which}."]


def _new_site(summary: pd.DataFrame) -> list[str]:
    if RATIO not in summary.index:
        return []
    row: Any = summary.loc[RATIO]
    if row["prediction_high"] > UNINFORMATIVE * row["prediction_low"]:
        return ["What to expect at a new site is not known: the sites are too few, or differ too much."]
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
    alone = row["finding"] if row["finding"] in (NONE, UNTESTED) else UNCLEAR
    return "; ".join(part for part in parts if part) or alone


def travel_sentence(found: Travel) -> str:
    """Whether a correction transfers, in words."""
    table, pooled = found.table, found.pooled
    n, none = int((table["finding"] != UNTESTED).sum()), int((table["finding"] == NONE).sum())
    others = "site" if len(table) == 2 else "sites"
    if none == n:
        return f"No fit on the other {others} found an error to correct."
    told = f"Corrected by a fit on the other {others}, the O/E ratio of all sites together is "
    told += f"{IN_SENTENCE.decimal(pooled.value)} (95 % CI {IN_SENTENCE.interval(pooled.low, pooled.high)})"
    nearer, further = (table["moved"] == word for word in (NEARER, FURTHER))
    moved = [f"shown to be nearer to 1 than before at {_count(int(nearer.sum()), n)}"] if nearer.any() else []
    moved += [f"further from 1 at {_named_rows(table[further], n)}"] if further.any() else []
    sides = [(side, table[(table["level"] == side) & ~further]) for side in (TOO_HIGH, TOO_LOW)]
    off = [f"{side} at {_named_rows(own, n)}" for side, own in sides if len(own)]
    parts = [f"it is {' and '.join(moved)}"] if moved else []
    parts += [f"the corrected score is {' and '.join(off)}"] if off else []
    unclear = "at no single site is it shown to be nearer to 1 or further from it"
    return f"{told}; {'; '.join(parts) or unclear}."


def _count(some: int, n: int) -> str:
    if some == n:
        return "both sites" if n == 2 else f"all {n} sites"
    return f"{some} of {n} sites"


def _named_rows(rows: pd.DataFrame, n: int) -> str:
    """A few sites with the O/E ratio before and after, or how many."""
    if len(rows) > MOST_NAMED:
        return _count(len(rows), n)
    return listed([f"{row['site']}{_moved(row)}" for row in row_dicts(rows)], commas=True)


def _moved(row: Any) -> str:
    before, after = (row[f"{RATIO}_{when}"] for when in ("before", "after"))
    if not known(before) or not known(after):
        return ""
    interval = IN_SENTENCE.interval(row[f"{RATIO}_after_low"], row[f"{RATIO}_after_high"])
    return f" (from {IN_SENTENCE.decimal(before)} to {IN_SENTENCE.decimal(after)}, 95 % CI {interval})"
