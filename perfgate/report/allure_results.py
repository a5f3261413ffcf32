"""Allure results of a run: labels, numbers, thresholds and logs put on every running test; the run; environment."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import allure
from allure_commons.types import AttachmentType

from perfgate.judge.outliers import beside_reasons, differing_partitions, differing_topics
from perfgate.judge.phrases import number, percent
from perfgate.judge.rounds import filling_notes, spoilt
from perfgate.judge.wording import MEANING, effect_text, off_baseline, pairs_in_units, signed, spread_text
from perfgate.model import (
    Comparison,
    ComparisonOutcome,
    Failover,
    Judgement,
    Measurement,
    MetricEffect,
    Outcome,
    PairRelation,
    Profile,
    RangeRelation,
    Relation,
    Step,
    Verdict,
)
from perfgate.model.judged import ExitCode
from perfgate.model.secret import redacted
from perfgate.model.summary import metric_value, unknown_figures
from perfgate.model.system import SYSTEM_NAMES, System, system_of
from perfgate.report.exports import rounds_csv
from perfgate.report.figures import KEPT, PUBLISHED_COLUMNS, or_dash, published_rows, with_unit
from perfgate.report.front import escaped, html_table
from perfgate.report.html import CATEGORIES
from perfgate.report.plots import comparison_pictures, pictures
from perfgate.report.results import comparison_entry, scenario_entry, without_histograms
from perfgate.report.scenario_plots import Former
from perfgate.report.view import WORDS, View, integrity_line, word_of

JUDGED_COLUMNS = ("held against", "measured", "spread", "expected", "tolerance", "limit", "off", "published", "verdict")
STEP_METRICS = {
    "achieved, records/s": "records_per_s",
    "p50, ms": "latency_ms.p50",
    "p99, ms": "latency_ms.p99",
    "p99.9, ms": "latency_ms.p999",
    "broker cores": "broker_cpu_cores.sum",
}
"""Metrics of a ramp's steps by the head of their column."""
EPIC = "{} performance gate"
NAME = "the run as a whole"
"""Test case for what concerns no single scenario, as brokers that broke: a CI that colours by tests would be green."""
TYPES = {".html": "text/html", ".svg": "image/svg+xml", ".csv": "text/csv", ".json": "application/json"}
Status = Literal["passed", "failed", "skipped"]


def attach_scenario(measurement: Measurement, outcome: Outcome, profile: Profile | None, former: Former) -> None:
    scenario = measurement.scenario
    _label(scenario.families[0], f"{scenario.name}: {scenario.summary}")
    of_pulsar = f" ({scenario.kept})" if scenario.kept else ""
    allure.dynamic.title(f"{scenario.name}: {outcome.verdict.value}{_headline(measurement)}{of_pulsar}")
    load = f"{scenario.load.kind}, {scenario.load.rate:,.0f} records/s"
    kept = {KEPT: scenario.kept} if scenario.kept else {}
    for name, value in {**dict(scenario.factor), "link": scenario.link.name, "load": load, **kept}.items():
        allure.dynamic.parameter(name, _Bare(value), excluded=True)  # a changed value is the same test
    entry = scenario_entry(measurement, outcome)
    each = entry["metrics"].items()
    figures = [(name, number(m["value"]), m["unit"], " ".join(map(number, m["rounds"]))) for name, m in each]
    figures += [
        (f"{figure} of the brokers", "unavailable", "", why)
        for why, lacking in unknown_figures(measurement).items()
        for figure in lacking
    ]
    published = {figure.metric: number(figure.value) for figure in reversed(outcome.published)}
    rounds, rtt_ms = measurement.rounds, measurement.rtt_ms.get(scenario.link.name)
    rtt = "not measured" if rtt_ms is None else f"{rtt_ms:.2f} ms"
    filling = filling_notes({scenario.name: measurement})
    notes = (*differing_partitions(rounds), *differing_topics(rounds), *filling)
    allure.dynamic.description_html(
        _paragraphs(
            outcome.message.partition("\n")[0] or outcome.verdict.value,
            f"{scenario.summary}.",
            *(*outcome.reasons, *beside_reasons(outcome, rounds), *notes),
            integrity_line([entry]),
        )
        + html_table(JUDGED_COLUMNS, [_judged_row(judgement, published) for judgement in outcome.judgements])
        + html_table(("metric", "value", "unit", "each round"), figures)
        + html_table(PUBLISHED_COLUMNS, published_rows(outcome, measurement))
        + _paragraphs(f"Link {scenario.link.name}: round trip {rtt}. Latency counts from {measurement.latency_basis}.")
    )
    _attach_pictures(pictures(measurement, outcome, former))
    allure.attach(entry["official_command"], "the same load with the official tools", AttachmentType.TEXT)
    for r in rounds:
        if r.failover is not None:
            allure.attach(_phases_html(r.failover), f"fault {r.index}: phases", AttachmentType.HTML)
        if r.steps:
            allure.attach(_steps_html(r.steps), f"round {r.index}: steps", AttachmentType.HTML)
    _attach_json("measurement", {name: value for name, value in entry.items() if name != "broker_log_tail"})
    allure.attach(rounds_csv(measurement), "rounds", AttachmentType.CSV)
    if profile:
        allure.attach(Path(profile.path).read_text(), f"thresholds used: {profile.name}", AttachmentType.TEXT)
    if not outcome.verdict.green and outcome.verdict is not Verdict.MISSING:
        allure.attach(measurement.broker_log_tail or "(no log)", "broker log tail", AttachmentType.TEXT)
    if outcome.message and not outcome.verdict.green:
        allure.attach(outcome.message, "verdict", AttachmentType.TEXT)


def attach_not_run(name: str, family: str) -> None:
    _label(family, name)
    allure.dynamic.title(f"{name}: not run")


def _steps_html(steps: Sequence[Step]) -> str:
    head = ("step", "offered, records/s", *STEP_METRICS, "attempted", "acknowledged", "received", "service level")
    rows = []
    for step in steps:
        figures = (or_dash(step.metrics.get(name)) for name in STEP_METRICS.values())
        counts = (step.accounting.attempted, step.accounting.acked, step.received)
        counted = (or_dash(count, "{:,}".format) for count in counts)
        rows.append((step.part, number(step.rate), *figures, *counted, step.missed or "met"))
    return html_table(head, rows)


def _phases_html(failover: Failover) -> str:
    rows = []
    for name, (begin, end) in failover.phases.items():
        at_once, in_the_end = (by_phase.get(name, {}) for by_phase in (failover.shares_at_once, failover.shares))
        if end > begin:
            shown = (" ".join(percent(share) for share in shares.values()) for shares in (at_once, in_the_end))
            rows.append((name, f"{begin:.1f} .. {end:.1f} s", *shown))
    split = [(step, f"{at:.2f} s") for step, at in failover.split.items()]
    counts = [(kind, f"{count:,}") for kind, count in failover.integrity.items()]
    return (
        html_table(("phase", "since the fault", "sends that succeeded within 1 s, each partition", "in the end"), rows)
        + html_table((f"the outage's steps ({failover.split_source})", "since the fault"), split)
        + html_table(("records", "count"), counts)
    )


def attach_relation(relation: Relation, outcome: Outcome) -> None:
    _label(relation.family, f"{relation.name}: {relation.claim}")
    judgement = outcome.judgements[0] if outcome.judgements and isinstance(relation, PairRelation) else None
    ratio = f", {judgement.measured:.3g} x" if judgement and judgement.measured is not None else ""
    allure.dynamic.title(f"{relation.name}: {outcome.verdict.value}{ratio} ({relation.accepted})")
    allure.dynamic.description_html(
        _paragraphs(f"{outcome.verdict.value}. {relation.claim}.", *outcome.reasons)
        + (_steps_of_a_range(relation, outcome) if isinstance(relation, RangeRelation) else _ratios(relation, outcome))
        + _paragraphs(relation.source)
    )


def _ratios(relation: Relation, outcome: Outcome) -> str:
    rows = [(f"round {i}", f"{ratio:.3g}") for i, ratio in enumerate(outcome.rounds, start=1)]
    if outcome.judgements and (measured := outcome.judgements[0].measured) is not None:
        rows.insert(0, ("median", f"{measured:.3g}"))
    rows.append(("must be", relation.accepted))
    return html_table((f"{relation.metric.name}: {' / '.join(relation.names)}", "ratio"), rows)


def _steps_of_a_range(relation: RangeRelation, outcome: Outcome) -> str:
    rows = []
    for pair, step, judgement in zip(relation.steps, outcome.steps, outcome.judgements, strict=True):
        ratio, each = or_dash(judgement.measured, "{:.3g}".format), " ".join(f"{ratio:.3g}" for ratio in step.rounds)
        rows.append((pair.name, ratio, pair.accepted, each, judgement.verdict.value))
    return html_table((f"step, {relation.metric.name}", "ratio", "must be", "each round", "verdict"), rows)


def attach_comparison(comparison: Comparison, outcome: ComparisonOutcome) -> None:
    scenario, primary = comparison.scenario, outcome.primary
    _label(scenario.families[0], f"{scenario.name}: {scenario.summary}")
    shown = f", {signed(primary.estimate)} {primary.metric.name}" if primary else ""
    allure.dynamic.title(f"{scenario.name}: {outcome.effect.value}{shown} with {comparison.change}")
    effects = [*([primary] if primary else []), *outcome.others]
    meaning, of_primary = f"{outcome.effect.value}: {MEANING[outcome.effect]}.", effect_text(primary) if primary else ""
    spent = f"{pairs_in_units(outcome)}, {outcome.minutes:.1f} min, by {comparison.method}."
    seen = f" A slowdown of {percent(outcome.detectable)} would have shown." if outcome.detectable else ""
    allure.dynamic.description_html(
        _paragraphs(*filter(None, (meaning, of_primary, spent + seen, outcome.scatter, *outcome.reasons)))
        + html_table(
            ("metric", "effect", "95 % interval", "as declared", "changed", ""),
            [_effect_row(comparison, effect, decides=effect is primary) for effect in effects],
        )
    )
    _attach_pictures(comparison_pictures(outcome, comparison))
    _attach_json("comparison", comparison_entry(comparison, outcome))
    if tail := comparison.candidate.broker_log_tail:
        allure.attach(tail, "broker log tail", AttachmentType.TEXT)
    allure.attach(outcome.message, "verdict", AttachmentType.TEXT)


def _effect_row(comparison: Comparison, effect: MetricEffect, *, decides: bool) -> tuple[str, ...]:
    low, high = effect.interval
    sides = (metric_value(m, effect.metric.name) for m in (comparison.baseline, comparison.candidate))
    before, after = ("-" if value is None else f"{number(value)} {effect.metric.unit}" for value in sides)
    word = ("worse" if effect.worse else "better") if effect.notable else ""
    shown = (signed(effect.estimate), f"{low * 100:+.1f} .. {high * 100:+.1f} %", before, after)
    return (effect.metric.name, *shown, "decides" if decides else word)


def attached_pictures(folder: Path) -> dict[str, bytes]:
    """Return the pictures that tests have attached, by file name; the run's folder gets the same."""
    by_name: dict[str, bytes] = {}
    for path in folder.glob("*-result.json"):
        for attached in json.loads(path.read_text()).get("attachments", ()):
            if attached["name"].endswith((".svg", ".png")):
                by_name[attached["name"]] = (folder / attached["source"]).read_bytes()
    return by_name


def write_environment(folder: Path, facts: Mapping[str, object]) -> None:
    texts = {key: ", ".join(map(str, v)) if isinstance(v, list | tuple) else str(v) for key, v in facts.items()}
    (folder / "environment.properties").write_text("".join(f"{key}={text}\n" for key, text in texts.items()))
    (folder / "categories.json").write_text(json.dumps(CATEGORIES, indent=1))


def status_of(document: Mapping[str, Any]) -> Status:
    """Return the status of the run's own test: passed if plain green, skipped if green otherwise, else failed."""
    if document["exit_code"] != ExitCode.GREEN:
        return "failed"
    return "passed" if word_of(document) == WORDS[ExitCode.GREEN] else "skipped"


def verdict_lines(view: View) -> list[str]:
    """Return the run's verdict in a sentence, and what was undecided in several runs in a row."""
    return [" ".join(view.headline().split()), *view.often]


def write_whole_run(folder: Path, view: View) -> None:
    """Write the run as a whole among the Allure results: once for a run, however often it is written."""
    document, lines = view.document, verdict_lines(view)
    system = system_of(document["target"])
    name = NAME if system == "kafka" else f"{NAME}, {SYSTEM_NAMES[system]}"
    key = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    ended = int(datetime.fromisoformat(document["finished"]).timestamp() * 1000)
    result = {
        "uuid": document["run_id"],
        "historyId": key,
        "testCaseId": key,
        "fullName": f"gate#{NAME}",
        "name": f"{NAME}: {word_of(document)}",
        "status": status_of(document),
        "statusDetails": {"message": redacted("\n".join(lines))},
        "description": redacted("\n\n".join(lines)),
        "start": ended,
        "stop": ended,
        "labels": [{"name": "epic", "value": EPIC.format(SYSTEM_NAMES[system])}, {"name": "feature", "value": NAME}],
        "parameters": [{"name": "exit code", "value": str(document["exit_code"]), "excluded": True}],
        "attachments": [],
        "steps": [],
    }
    (folder / f"{document['run_id']}-result.json").write_text(json.dumps(result), encoding="utf-8")


def write_attachments(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put files, by name, into the Allure results as attachments of the whole run: its tab "Global attachments"."""
    attached = []
    for name, content in files.items():
        suffix = Path(name).suffix
        source = f"{uuid.uuid4()}-attachment{suffix}"
        (folder / source).write_bytes(content)
        attached.append({"name": name, "source": source, "type": TYPES.get(suffix, "text/plain")})
    (folder / f"{uuid.uuid4()}-globals.json").write_text(json.dumps({"attachments": attached, "errors": []}))


class _Bare:
    """A parameter's value that Allure shows without quotes around it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _headline(measurement: Measurement) -> str:
    parts = []
    for name, text in (
        ("knee_records_per_s", "knee at {} records/s"),
        ("outage_s.max", "outage {} s"),
        ("catch_up_s", "caught up in {} s"),
        ("records_per_s", "{} records/s"),
        ("latency_ms.p99", "p99 {} ms"),
        ("broker_cpu_cores.sum", "{} broker cores"),
        ("broker_cpu_us_per_record", "{} us/record"),
    ):
        value = None if spoilt(measurement, name) else metric_value(measurement, name)
        parts += [text.format(number(value))] if value is not None else []
    return "".join(f", {part}" for part in parts)


def name_system(system: System) -> None:
    """Put the running test under its system; Pulsar's is a test of its own, although it has the name of Kafka's."""
    allure.dynamic.epic(EPIC.format(SYSTEM_NAMES[system]))
    if system != "kafka":
        allure.dynamic.parameter("system", _Bare(SYSTEM_NAMES[system]))


def _label(family: str, story: str) -> None:
    allure.dynamic.feature(family)
    allure.dynamic.story(story)


def _judged_row(judgement: Judgement, published: Mapping[str, str]) -> tuple[str, ...]:
    """Return a row of JUDGED_COLUMNS; `published`: by metric, the first figure that was published of it."""
    return (
        judgement.metric,
        with_unit(judgement.measured, judgement.metric),
        spread_text(judgement.spread),
        or_dash(judgement.baseline),
        or_dash(judgement.tolerance, percent),
        or_dash(judgement.limit),
        or_dash(off_baseline(judgement), signed),
        published.get(judgement.metric, "-"),
        judgement.verdict.value,
    )


def _paragraphs(*texts: str) -> str:
    return "".join(f"<p>{escaped(text)}</p>" for text in texts)


def _attach_pictures(drawn: Mapping[str, bytes]) -> None:
    for name, picture in drawn.items():
        allure.attach(picture, name, AttachmentType.SVG if name.endswith(".svg") else AttachmentType.PNG)


def _attach_json(name: str, value: object) -> None:
    allure.attach(without_histograms(value), name, AttachmentType.JSON)
