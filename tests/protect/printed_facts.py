"""All that is handed on of a result, read as facts: who, which quantity, and the text
that is printed.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from html import unescape

import numpy as np
from random_results import UNIT

from output.test_same_numbers import SIGNS, Tables, markdown_cells, plain_cells
from propcal.auditing.names import MEASURE_NAMES
from propcal.numbers import IN_TEXT, risk_range
from propcal.render.cells import evidence_text
from propcal.render.html import unpacked

ALL, SITES, CI = f"All {UNIT}", "All sites", ", 95 % CI"


def clean(text):
    """The same text for the same number: a dash for none, signs in the place of
    words.
    """
    text = unescape(str(text)).replace("\u00a0", " ").translate(SIGNS).strip(" ▲▼")
    text = re.sub(
        r"^[Aa]bout | \+$", "", text
    )  # a plus after a finding refers to a remark
    text = re.sub(
        r"^\((too (?:high|low))\)$", r"\1", text
    )  # brackets: the verdict does not name it
    for word, sign in (
        ("[Ff]ewer than|below", "<"),
        ("[Mm]ore than|above", ">"),
        ("at least", "≥"),
    ):
        text = re.sub(f"^(?:{word}) ", f"{sign} ", text)
    return text or "-"


def text_of(html):
    """What is read on a page, without its tags."""
    html = re.sub(r"<(style|script).*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)).translate(SIGNS))


# of a row in JSON: the name of a quantity, and how it is printed
PRINTED = {
    "people": ("people", IN_TEXT.count),
    "positives": ("events", IN_TEXT.count),
    "finding": ("finding", str),
}
PRINTED |= {
    "outcome_rate": ("observed", IN_TEXT.percent),
    "mean_score": ("predicted", IN_TEXT.percent),
}
PRINTED |= {
    "p_value": ("adjusted p", IN_TEXT.p_value),
    "gap": ("gap", lambda x: IN_TEXT.points(x, 0)),
}
PRINTED |= {
    "evidence": ("evidence now", evidence_text),
    "highest": ("highest", evidence_text),
}
MEASURES = ("observed_expected", "intercept", "slope", "brier", "log_loss", "auroc")
NAMES = {
    "O/E ratio": "O/E",
    "calibration slope": "slope",
    "calibration intercept": "intercept",
    UNIT: "people",
}
NAMES |= {"with the outcome": "events", "95 % CI of the gap": "gap, 95 % CI"}
SHORT = {
    key: NAMES.get(MEASURE_NAMES[key].name, MEASURE_NAMES[key].name) for key in MEASURES
}
RATES = r"observed (.{1,9}? %), predicted (.{1,9}? %)"
NUMBERS = RATES + r"(?: \(O/E ([\d.]+)(?:, 95 % CI ([\d.]+ to [\d.]+))?\))?"


def named(name):
    name = name[:1].lower() + name[1:] if name.startswith("Cal") else name
    return NAMES.get(name, name)


def of_row(who, row, only=None):
    """The facts of a row in JSON."""
    for key, (what, text) in PRINTED.items():
        if key in row:
            yield who, what, "-" if row[key] is None else text(row[key])
    for key in MEASURES:
        ends = [row.get(f"{key}{end}") for end in ("_low", "_high")]
        if key in row:
            yield who, SHORT[key], IN_TEXT.decimal(row[key], MEASURE_NAMES[key].digits)
        if f"{key}_low" in row:
            yield (
                who,
                SHORT[key] + CI,
                IN_TEXT.interval(*ends, MEASURE_NAMES[key].digits),
            )


@dataclass(frozen=True)
class Printed:
    """All that is handed on of a result, and its exact JSON."""

    exact: dict
    json: dict
    html: str
    markdown: str = ""
    metrics: str = ""

    @cached_property
    def audits(self):
        """The audits of a comparison by the score's name, the last one under no name;
        or the audit.
        """
        found = self.json.get("audits") or (
            {"": self.json} if "verdict" in self.json else {}
        )
        return {
            f" with {name}" if name != [*found][-1] else "": one
            for name, one in found.items()
        }

    @cached_property
    def labels(self):
        rows = (
            self.json.get("groups")
            or next(iter(self.audits.values()), {}).get("groups")
        ) or []
        return {row["group"]: row["label"] for row in rows}

    @cached_property
    def base(self):
        return " with score" if len(self.audits) > 1 else ""

    @cached_property
    def last(self):
        """The last period, after the names of groups."""
        return (
            f" in {self.json['settings']['periods'][-1]}"
            if "periods" in self.json
            else ""
        )

    @cached_property
    def sentences(self):
        found = [*self.json.get("sentences", ())]
        for one in self.audits.values():
            found += one["verdict"]["sentences"]
        return [
            *found,
            *(
                [self.json["recalibration"]["sentence"]]
                if self.json.get("recalibration")
                else []
            ),
        ]

    @cached_property
    def facts(self):
        read = {
            "JSON": [*of_json(self)],
            "sentences": [*of_sentences(self)],
            "exact": [*of_exact(self)],
        }
        read |= {
            "page": [*of_tables(self, html_tables(self.html))],
            "pictures": [*of_pictures(self)],
        }
        read |= {
            "Markdown": [*of_tables(self, markdown_tables(self.markdown))],
            "metrics": [*of_metrics(self)],
        }
        return [
            (place, who, what, clean(text))
            for place, rows in read.items()
            for who, what, text in rows
        ]


def of_json(p):
    for of, audit in p.audits.items():
        for row in audit["groups"]:
            yield from of_row(row["label"] + of, row)
        for row in audit["categories"]:
            yield from of_row(
                f"{p.labels[row['group']]}{of} at {risk_range(row['bin'])}", row
            )
        for bars in audit["distribution"]:
            for low, high, n, events in zip(
                *(bars[x] for x in ("score_from", "score_to", "people", "positives"))
            ):
                row = {"people": n, "positives": events}
                where = risk_range(f"[{low:.6g}, {high:.6g}]")
                yield from of_row(f"{p.labels[bars['group']]}{of} at {where}", row)
        for row in audit["losses"]:
            yield (
                ALL + of,
                MEASURE_NAMES[row["name"]].name,
                IN_TEXT.decimal(row["value"], 3),
            )
        yield (
            ALL + of,
            "typical gap",
            IN_TEXT.decimal(
                100 * (audit["debiased"] or [{"rms": np.nan}])[0]["rms"], 1
            ),
        )
    for row in p.json.get("differences", ()):
        of = f" with {row['score']}" if f" with {row['score']}" in p.audits else ""
        whom, what = p.labels.get(row["group"], ALL), MEASURE_NAMES[row["measure"]]
        for key, score in (("base", p.base), ("value", of)):
            if row[key] is not None:
                yield (
                    whom + score,
                    named(what.name),
                    IN_TEXT.decimal(what.shown(row[key]), what.digits),
                )
    for row in p.json.get("periods", ()):
        yield from of_row(f"{row['label']} in {row['period']}", row)
    for row in p.json["groups"] if p.last else ():
        yield from of_row(row["label"] + p.last, row)
    for row in p.json.get("sites", ()):
        yield from of_row(row["site"], row)
    for row in p.json.get("summary", ()):
        what = row["measure"]
        yield (
            SITES,
            SHORT[what],
            IN_TEXT.decimal(row["mean"], MEASURE_NAMES[what].digits),
        )
        yield (
            SITES,
            SHORT[what] + CI,
            IN_TEXT.interval(row["low"], row["high"], MEASURE_NAMES[what].digits),
        )
    for row in p.json.get("travel") or ():
        yield row["site"], "O/E", IN_TEXT.decimal(row["observed_expected_before"])
        yield (
            f"{row['site']} corrected",
            "O/E",
            IN_TEXT.decimal(row["observed_expected_after"]),
        )


def of_exact(p):
    """Findings of the exact result, and its statistics of everybody if there are many
    events.
    """
    whole = replace(p, json=p.exact)
    many = [SITES]
    for of, one in whole.audits.items():
        scores = np.count_nonzero(
            (one["distribution"] or [{"people": []}])[0]["people"]
        )
        many += [ALL + of] * int(one["groups"][0]["positives"] > 50 and scores > 4)
    for who, what, text in of_json(whole):
        if what == "finding" or (
            who in many
            and re.match("AUROC|slope|intercept|Brier|log loss|typical", what)
        ):
            yield who, what, text
    yield (
        "",
        "conclusion",
        [one["verdict"]["conclusion"] for one in whole.audits.values()]
        or p.exact["conclusion"],
    )
    yield (
        "",
        "conclusion",
        [one["verdict"]["conclusion"] for one in p.audits.values()]
        or p.json["conclusion"],
    )


def html_tables(html):
    """The tables of a page, each with its caption: rows by their headings."""
    html = html.replace('<span class="ci">', " (").replace('<span class="sr">', " | ")
    for table in re.findall(
        r"<h3><bdi>[^<]*</bdi> compared.*?</h3>|<table.*?</table>", html, re.DOTALL
    ):
        caption = text_of(
            (re.findall(r"<caption.*?</caption>", table, re.DOTALL) or [table[:500]])[0]
        )
        yield (
            caption,
            by_heading(plain_cells(Tables(table).rows))
            if table.startswith("<table")
            else [],
        )


def markdown_tables(markdown):
    """The same of a text in Markdown; the line before a table is its caption."""
    rows, caption = [], ""
    for line in [*unescape(markdown).replace("\\_", "_").splitlines(), "#"]:
        if line.startswith("|"):
            rows += plain_cells(markdown_cells(line))
        elif rows:
            yield (
                caption,
                by_heading(
                    [row for row in rows if not set("".join(row)) <= set("-: ")]
                ),
            )
            rows = []
        if line.strip() and line[0] != "|":
            caption = line.strip("# ")
            yield from [(caption, [])] if " compared with " in line else []


def by_heading(rows):
    """An interval is named after the number before it, and so is a second column of the
    same name.
    """
    rows, heads = [row for row in rows if row], []
    for head in rows[0] if rows else ():
        before = next((h for h in reversed(heads) if h), "")
        heads.append(
            f"{before}, {head}" if head in heads or head == "95 % CI" else named(head)
        )
    return [dict(zip(heads, row)) for row in rows[1:]]


def of_tables(p, tables):
    after, before = "", p.base
    for caption, lines in tables:
        compared = re.match(r"[ *]*(\w+) compared with (\w+)", caption)
        if compared:
            after, before = (
                f" with {x}" if f" with {x}" in p.audits else ""
                for x in compared.groups()
            )
        for line in lines:
            whom = line.get("group") or line.get("site") or ALL
            if "before" in line and "after" in line:
                whom, what = (
                    (line.get("group") or line.get("O/E") or ALL),
                    named(line.get("measure", "O/E")),
                )
                yield from (
                    (whom + before, what, line["before"]),
                    (whom + after, what, line["after"]),
                )
                yield whom + after, f"{what}, change", line["95 % CI of the change"]
            elif "O/E before" in line and p.audits:
                yield whom + before, "O/E", line["O/E before"]
                yield whom + after, "O/E", line["O/E after"]
                yield whom + after, "O/E, change", line["95 % CI of the change"]
            elif "O/E before" in line:
                if p.last and p.json["recalibration"]["judged"] != [
                    p.last.removeprefix(" in ")
                ]:
                    whom += " judged"
                yield (
                    whom + (p.last if "judged" not in whom else ""),
                    "O/E",
                    line["O/E before"],
                )
                yield f"{whom} corrected", "O/E", line["O/E after"]
            elif "new site" in line:
                yield SITES, named(line["measure"]), line["mean"]
                yield SITES, named(line["measure"]) + CI, line["mean, 95 % CI"]
                yield SITES, named(line["measure"]) + ", new site", line["new site"]
            elif "where" in line:
                yield ALL, line["loss"], line["value"]
            elif "events" in line and "" in line:  # key figures in Markdown
                of, end = (
                    (p.base if line[""] == "before" else ""),
                    CI if line[""] == "95 % CI" else "",
                )
                yield from (
                    (ALL + of, what + end, text)
                    for what, text in line.items()
                    if what and text
                )
            elif "scores from" in line:
                low, high = float(line["scores from"]), line["to"]
                whom = f"{ALL} at {risk_range(f'[{low:g}, {high}]')}"
                yield from ((whom, what, line[what]) for what in ("people", "events"))
            elif "highest rate" in line:
                for end in ("highest", "lowest"):
                    rate = line[
                        "observed" if end == "highest" else "lowest rate, observed"
                    ]
                    yield (
                        f"{line[f'{end} rate']} at {line['predicted risk']}",
                        "observed",
                        rate,
                    )
            elif "newly flagged" in line:
                for what in ("newly flagged", "no longer flagged"):
                    yield f"{whom}{after} {caption.strip(' *')}", what, line[what]
            elif "flagged per 100" in line:
                caption = caption.strip(" *")
                for what in {*line} - {"group"}:
                    value, *ends = re.split(r" ?\(", line[what].rstrip(")"))
                    yield f"{whom} from {caption[:16]}", what, value
                    yield from (
                        (f"{whom} from {caption[:16]}", what + CI, end) for end in ends
                    )
            elif any(re.fullmatch(r"[\d.]+-[\d.]+ %", head) for head in line):
                for bin_, cell in line.items():
                    text, _, told = cell.partition("|")
                    mark = r"((?:below |above )?[-+]?[\d.]+)(?: \*)?$"
                    gap = re.search(r"gap (.*) percentage", told) or re.search(
                        mark, text
                    )
                    if gap:
                        if "." not in gap[1]:  # a gap below 1 point that was found
                            yield f"{whom} at {bin_}", "gap", gap[1]
                        side = "too high" if "-" in text else "too low"
                        sign = side if text.endswith("*") else "could be chance"
                        yield (
                            f"{whom} at {bin_}",
                            "finding",
                            told.split(",")[0].strip() or sign,
                        )
            elif "group" in line or "site" in line:
                when = f" in {line['period']}" if "period" in line else p.last
                where = (
                    f" at {line['predicted risk']}" if "predicted risk" in line else ""
                )
                for what in {*line} - {
                    "",
                    "group",
                    "site",
                    "why",
                    "predicted risk",
                    "period",
                    "alarm raised",
                    "setting",
                }:
                    past = re.match(r"O/E (\d{4}-\d\d)(.*)", what)
                    yield (
                        whom + (f" in {past[1]}" if past else when) + where,
                        f"O/E{past[2]}" if past else what,
                        re.split(r" \((?:explained|O/E )", line[what])[0],
                    )


def of_sentences(p):
    for of, audit in p.audits.items():
        text = audit["verdict"]["text"]
        for label in sorted({*p.labels.values()} - {ALL}, key=len, reverse=True):
            for pattern in (
                rf"for {re.escape(label)}: {NUMBERS}",
                rf"{re.escape(label)} \(O/E ([\d.]+)(?:, 95 % CI (.*?))?\)",
            ):
                for found in re.finditer(pattern, text):
                    values = [None] * (4 - len(found.groups())) + [*found.groups()]
                    yield from told(label + of, values)
                    text = text.replace(found[0], "")
        for found in re.finditer(
            rf"(?:Overall|Over all|On average)[^:.]*: {NUMBERS}", text
        ):
            yield from told(ALL + of, found.groups())
        for found in re.finditer(
            rf"Over all {UNIT}, O/E is ([\d.]+) \(95 % CI (.*?)\)", text
        ):
            yield from told(ALL + of, [None, None, *found.groups()])
        for slope, ends in re.findall(
            r"calibration slope ([\d.-]+)(?:, 95 % CI (.*?))?\)", text
        ):
            yield from (
                (ALL + of, "slope", slope),
                *([(ALL + of, "slope" + CI, ends)] if ends else []),
            )
        for label, where, observed, predicted in re.findall(
            rf"gap is in (.*?) at predicted risk (.*?): {RATES}", text
        ):
            whom = ALL if label == f"all {UNIT}" else label
            yield from told(f"{whom}{of} at {where}", [observed, predicted, None, None])
        for gap in re.findall(r"without what chance adds, is ([\d.]+) perc", text):
            yield ALL + of, "typical gap", gap
    text = " ".join(p.json.get("sentences", ()))
    for ratio, site in re.findall(r"([\d.]+) at (Site \d+)", text):
        yield site, "O/E", ratio
    for site, ends in re.findall(
        r"at (Site \d+), the 95 % CI of the O/E ratio is (.*?)\.(?: |$)", text
    ):
        yield site, "O/E" + CI, ends
    for what, mean, ends in re.findall(
        r"mean (?:calibration )?(O/E ratio|slope) over sites is ([\d.]+) \(95 % CI (.*?)\)",
        text,
    ):
        yield from ((SITES, named(what), mean), (SITES, named(what) + CI, ends))
    for ends in re.findall(r"O/E ratio between (.*?) \(95 % prediction", text):
        yield SITES, "O/E, new site", ends.replace(" and ", " to ")


def told(who, values):
    for what, text in zip(("observed", "predicted", "O/E", "O/E" + CI), values):
        if text:
            yield who, what, text


def bars_of(html):
    return re.findall(
        r'bar-name"><bdi>(.*?)</bdi>.*?bar-text">(.*?)</span></li>', html, re.DOTALL
    )


def of_pictures(p):
    """Key figures, bars, and what pictures say of themselves."""
    figure = r'figure-name">(.*?)</span><span class="figure-value">(.*?)</span>'
    for note in ("95 % CI", "before:"):
        figure += rf'(?:<span class="figure-note">{note} (.*?)</span>)?'
    for name, value, ends, before in re.findall(figure, p.html):
        yield ALL, named(name), value
        yield from ([(ALL, named(name) + CI, ends)] if ends else []) + (
            [(ALL + p.base, named(name), before)] if before else []
        )
    forests = dict(
        re.findall(
            r'<figure class="broad" id="forest-(.*?)">(.*?)</figure>', p.html, re.DOTALL
        )
    )
    others = re.sub(
        r'<figure class="broad" id="forest-.*?</figure>', "", p.html, flags=re.DOTALL
    )
    for name, text in bars_of(others):
        before, ratio, ends, finding = re.fullmatch(
            r"(?:(\S.*?) → )?(.*?)(?: \((.*?)\))? ?; (.*?)", text_of(text).strip()
        ).groups()
        name = unescape(name)
        yield from ([(name + p.base, "O/E", before)] if before else []) + (
            [(name, "O/E" + CI, ends)] if ends else []
        )
        yield from ((name, "O/E", ratio), (name, "bar", finding))
    for group in data_in(p.html, "groups-data") or ():
        all_told = " ".join(group["told"].values())
        for what, pattern in {
            "AUROC": r"AUROC ([\d.]+) ",
            "AUROC" + CI: r"95 % CI (.*?)\)",
            "slope": r"slope (.*?)\.(?: |$)",
            "observed": r"Observed rate (.*?)\.(?: |$)",
            "people": rf"([^.]*?) {UNIT}\.",
        }.items():
            yield from (
                (group["name"], what, found.strip())
                for found in re.findall(pattern, all_told)
            )
    for key, figure in forests.items():
        site = ""
        for name, text in bars_of(figure):
            text = text_of(text).strip()
            site = site if name == "after correction" else name
            value, ends = (re.fullmatch(r"(.*?)(?: \((.*)\))?", text)).groups()
            who = (
                f"{site} corrected"
                if name == "after correction"
                else SITES
                if name.startswith("All")
                else name
            )
            what = SHORT.get(key, "O/E")
            if name.startswith("New site"):
                yield SITES, f"{what}, new site", text
            else:
                yield from (
                    (who, what, value),
                    *([(who, what + CI, ends)] if ends else []),
                )


def of_metrics(p):
    gauges = {
        "people": "people",
        "observed_rate": "outcome_rate",
        "predicted_rate": "mean_score",
        "oe_ratio": "observed_expected",
    }
    for gauge, label, value in re.findall(
        r'propcal_(\w+)\{.*?label="(.*?)".*?\} (\S+)', p.metrics
    ):
        if gauge in gauges or gauge == "evidence":
            key = gauges.get(gauge, gauge)
            what, text = PRINTED.get(key) or ("O/E", IN_TEXT.decimal)
            yield label + p.last, what, text(float(value))


def data_in(html, name):
    found = re.search(rf'id="(?:{name})">(.*?)</script>', html)
    return unpacked(found[1]) if found else None


def printed(result):
    """What is handed on of a result, with protection."""
    exact, shown = (
        json.loads(result.to_json(suppress=suppress)) for suppress in (None, 11)
    )
    markdown = result.to_markdown() if hasattr(result, "to_markdown") else ""
    metrics = result.to_metrics() if hasattr(result, "to_metrics") else ""
    return Printed(exact, shown, result.to_html(), markdown, metrics)
