"""docs/catalogue.md, made of the declarations, the relations and recorded runs: `make catalogue`."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from perfgate import catalogue
from perfgate.catalogue import pulsar
from perfgate.catalogue.kafka import FAMILIES
from perfgate.judge.bounds_files import load_relations
from perfgate.judge.phrases import number
from perfgate.judge.thresholds import RELATIONS_FILES
from perfgate.model import FaultScenario, PairRelation, RangeRelation, Relation, Scenario
from perfgate.model.catalogue import Family
from perfgate.model.judged import UNSOUND
from perfgate.model.relations import ROUGH_LEAST
from perfgate.model.system import SYSTEMS, system_of
from perfgate.report.results import load_run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "catalogue.md"
MEASURED = ROOT / "benchmarks" / "results" / "catalogue.json"
"""What runs measured: their machine and commands, metrics by scenario, and by relation the ratios and verdicts of each
run that held it."""
SHOWN = (
    ("records_per_s", "records/s"),
    ("received_records_per_s", "read/s"),
    ("latency_ms.p99", "p99 ms"),
    ("end_to_end_latency_ms.p50", "send to receipt p50 ms"),
    ("end_to_end_latency_ms.p99", "send to receipt p99 ms"),
    ("broker_cpu_us_per_record", "us CPU/record"),
    ("knee_records_per_s", "knee, records/s"),
    ("timed_out_share", "timed out (share)"),
    ("unread_records", "unread"),
    ("lag_drained_s", "read in s"),
)
SHOWN_WHERE_HELD = (
    ("mib_per_s", "MiB/s"),
    ("latency_ms.p50", "p50 ms"),
    ("latency_ms.avg", "average ms"),
    ("broker_network_in_bytes_per_record", "bytes received/record"),
    ("broker_cpu_cores.2", "cores of broker 2"),
)
"""Shown of families with a relation in one of them."""
NIGHT = (
    ("records_per_s", "records/s"),
    ("received_records_per_s", "read/s"),
    ("latency_ms.p99", "p99 ms"),
    ("broker_cpu_us_per_record", "us CPU/record"),
    ("broker_rss_mib.sum", "memory MiB"),
)
"""What the page shows of one whole nightly, with the spread of its rounds."""
HEAD = """# The catalogue

Look up here what each scenario varies, what the published results say, and what holds here. The page
is made by `make catalogue`, from `perfgate/catalogue/kafka.py` and `relations.toml` beside it; its
[part on Pulsar](#pulsar) from `pulsar.py` and `relations-pulsar.toml`.

    kafka-perf-gate gate --family partitions       # a family, in any tier
    kafka-perf-gate gate -k linger                 # a scenario, in any tier
    kafka-perf-gate list --tier full               # all, with time, bytes, and what is not run

| column | meaning |
|---|---|
| tier | the smallest tier that measures it (`smoke`, `nightly-1h`, `nightly`, `full`); larger ones do too |
| relation | a ratio between two scenarios that must hold |
| accepted | the range of the ratio; for a range of scenarios, of several ratios that are judged together |
| measured | the ratios of the runs; of a range, those of the medians in the table above it |
| `green in 5 of 5` | how many of the runs that measured the relation were green |
| `INVALID` | one of its scenarios had no valid load in that run |
| `INCONCLUSIVE` | its rounds scattered too much to decide |

- A scenario that several families are compared with is listed where it is declared.
- `green in` counts a pair by what is accepted here. It counts a range by what was accepted in that run,
  which takes a minimum from 1 to 1.3 for 0.9 with `--relations-only`.
- Of a range those ratios are judged whose scenarios a run measures.
- [Where the figures come from](#where-the-figures-come-from): machines, dates, commands.
"""


OF_PULSAR = """# Pulsar

The scenarios of `--system pulsar`. A name that a scenario of Kafka has too stands for the same load;
what differs:

- Replicas are the write quorum, and `3/3/2` is ensemble, write quorum, ack quorum: three bookies hold
  a ledger, each message is on three of them, and two have it when it is acknowledged. One copy
  (`3/1/1`) goes to each of the three bookies in turn, as Kafka's one copy goes to whichever broker
  leads the partition. `3/3/2` stands beside three replicas, `acks=all`, `min.insync.replicas=2`.
- Durability is `page cache` (journalSyncData=false, Kafka's default of no flush) but where `fsync` is
  varied (journalSyncData=true, Kafka's flush.messages=1). No relation compares the two.
- Batches are bounded by `batchingMaxBytes` (Kafka: `batch.size`), what is under way by
  `maxPendingMessages` (Kafka: `queue.buffering.max.kbytes`). The client waits 1 ms for a batch at least.
- CPU is that of brokers, bookies and the metadata store together.

Of Kafka's families these have no counterpart, and are not run: min-insync (the ack quorum is waited for,
whoever is in sync), idempotence, linger (the client waits 1 ms at least),
network-threads and io-threads, segment, log-dirs, group-protocol and share-group (a subscription's type
is varied instead), fetch-size, rack-read, security (the embedded cluster has none).
"""


def page(families: Sequence[Family], relations: Sequence[Relation], measured: Mapping[str, Any] | None) -> str:
    """Return the page; `measured` is what MEASURED holds."""
    described = (line for one in families for line in _family(one, relations, measured))
    return "\n".join(
        [HEAD, *described, *_night(families, relations, (measured or {}).get("nightly")), *_machine(measured)]
    )


def pulsar_page(relations: Sequence[Relation], measured: Mapping[str, Any] | None) -> str:
    """Return the part on Pulsar; `measured` is what MEASURED holds of it."""
    described = (line for one in pulsar.FAMILIES for line in _family(one, relations, measured, "Pulsar: "))
    return "\n".join([OF_PULSAR, *described, *_machine(measured, "Pulsar: where the figures come from")])


def _machine(measured: Mapping[str, Any] | None, heading: str = "Where the figures come from") -> Iterator[str]:
    """Yield where the figures were measured, a line for each sentence, and the commands."""
    if measured:
        yield f"## {heading}\n"
        yield "\n".join(f"- {_paragraph(f'{one}.', '  ')[:-1]}" for one in measured["machine"].split(". ")) + "\n"
        yield "The commands:\n"
        yield "".join(f"    {command}\n" for command in measured["commands"])


def _night(families: Sequence[Family], relations: Sequence[Relation], night: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield one whole nightly: where its time went, its figures with the spread of their rounds, its relations."""
    if night is None:
        return
    plain = [s for f in families for s in f.scenarios if not isinstance(s, FaultScenario) and not s.refusal]
    absent = [s.name for s in plain if s.tier != "full" and s.name not in night["scenarios"]]
    yield "## One whole nightly\n"
    yield _paragraph(f"{night['machine']}. {night['time']}. In brackets: standard deviation of the rounds over median.")
    yield f"    {night['command']}\n"
    if absent:
        yield _paragraph(f"Not in it: {', '.join(absent)}.")
    yield _row("scenario", *(title for _, title in NIGHT))
    yield "|---" * (1 + len(NIGHT)) + "|"
    for name, found in night["scenarios"].items():
        yield _row(f"`{name}`", *(_with_spread(found.get(metric)) for metric, _ in NIGHT))
    yield ""
    yield _row("relation", "ratio", "accepted", "verdict")
    yield "|---|---|---|---|"
    accepted = {relation.name: relation for relation in relations}
    for name, (ratios, verdict) in night["relations"].items():
        held = accepted.get(name)
        loose = isinstance(held, PairRelation) and not all(map(held.holds, ratios)) and verdict == "PASS"
        words = f"{verdict}, by a minimum of {ROUGH_LEAST:g} (--relations-only)" if loose else verdict
        yield _row(f"`{name}`", ", ".join(f"{one:.2f}" for one in ratios), held.accepted if held else "", words)
    yield ""


def _with_spread(found: Sequence[float] | None) -> str:
    return f"{number(found[0])} ({100 * found[1]:.0f} %)" if found else ""


def _family(
    family: Family, relations: Sequence[Relation], measured: Mapping[str, Any] | None, of: str = ""
) -> Iterator[str]:
    yield f"## {of}{family.name}\n"
    source = f" Source: {family.source}." if family.source else ""
    yield _paragraph(f"{family.about[0].upper()}{family.about[1:]}.{source}")
    if isinstance(family.scenarios[0], FaultScenario):
        yield "What each does: [the rules](failover-rules.md). What it cost: [evidence](evidence/failover.md).\n"
    figures = (measured or {}).get("scenarios", {})
    own = [relation for relation in relations if relation.family == family.name]
    shown = [*SHOWN, *(one for one in SHOWN_WHERE_HELD if any(one[0] == relation.metric.name for relation in own))]
    columns = [(name, title) for name, title in shown if any(name in figures.get(s.name, {}) for s in family.scenarios)]
    yield _row("scenario", "tier", "what it is", *(title for _, title in columns))
    yield "|---" * (3 + len(columns)) + "|"
    for scenario in family.scenarios:
        yield _row(*_scenario(scenario), *(_figure(figures.get(scenario.name, {}), name) for name, _ in columns))
    yield ""
    if own:
        yield _row("relation", "accepted", "measured", "published, and measured before")
        yield "|---|---|---|---|"
        for relation in own:
            held = (measured or {}).get("relations", {}).get(relation.name, {})
            if isinstance(relation, RangeRelation):
                text = f"{relation.claim} (`{relation.metric.name}` over {', '.join(relation.names)})"
                found = _measured_steps(relation, figures)
            else:
                assert isinstance(relation, PairRelation)
                text = f"{relation.claim} (`{relation.metric.name}` of {' / '.join(relation.names)})"
                found = _ratios(held.get("ratios", [])) or _of_medians(relation, figures)
            found += _verdicts(relation, held)
            yield _row(text, relation.accepted, found, relation.source)
        yield ""


def _measured_steps(relation: RangeRelation, figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return the steps between the medians that there are, and of which scenarios there are none."""
    metric = relation.metric.name
    values = {name: figures[name][metric] for name in relation.names if metric in figures.get(name, {})}
    steps = relation.steps if relation.lacks(values) else relation.among(values).steps
    ratios = [f"{s.name} {values[s.of] / values[s.over]:.2f}" for s in steps if set(s.names) <= values.keys()]
    absent = [name for name in relation.names if name not in values]
    return ", ".join(ratios) + (f"; not measured: {', '.join(absent)}" if absent else "") if ratios else ""


def _of_medians(relation: PairRelation, figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return the ratio of the medians, of a relation that no run has held; empty where they were not measured."""
    of, over = (figures.get(name, {}).get(relation.metric.name) for name in relation.names)
    return f"{of / over:.2f} (of the medians)" if of is not None and over else ""


def _paragraph(text: str, indent: str = "") -> str:
    filled = textwrap.fill(
        text, 98 if indent else 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return f"{filled}\n"


def _ratios(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    many = f" ({min(ratios):.2f} .. {max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.2f}{many}"


def _verdicts(relation: Relation, held: Mapping[str, Sequence[Any]]) -> str:
    """Return how many runs held the relation within the bounds that the page has, and what others said of it.

    --relations-only has wider bounds.
    """
    verdicts = held.get("verdicts", [])
    green = verdicts.count("PASS")
    if isinstance(relation, PairRelation):
        green = min(green, sum(map(relation.holds, held.get("ratios", []))))
    others = (f", {verdicts.count(name)} {name}" for name in sorted(set(verdicts) - {"PASS"}))
    return f"; green in {green} of {len(verdicts)}{''.join(others)}" if verdicts else ""


def _scenario(scenario: Scenario) -> tuple[str, str, str]:
    return f"`{scenario.name}`", scenario.tier, scenario.summary


def _figure(metrics: Mapping[str, float], name: str) -> str:
    return number(metrics[name]) if name in metrics else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def collected(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what `runs`, as run.json has them, measured, as MEASURED has it without machine and commands.

    A scenario's metric is the median of the runs' values; rounds that are INVALID or BROKEN bring none, nor do those of
    a metric that is not valid.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    relations: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {"ratios": [], "verdicts": []})
    for run in runs:
        for scenario in run["scenarios"]:
            if scenario["verdict"] not in UNSOUND:
                spoilt = {name for one in scenario["rounds"] for flaw in one["flaws"] for name in flaw["metrics"]}
                for name, _ in (*SHOWN, *SHOWN_WHERE_HELD):
                    if name.partition(".")[0] in spoilt:
                        continue
                    if (value := scenario["metrics"].get(name, {}).get("value")) is not None:
                        values[scenario["name"]][name].append(value)
        for held in (*run["relations"], *run["ranges"]):
            relations[held["name"]]["verdicts"].append(held["verdict"])
            if held.get("ratio") is not None:
                relations[held["name"]]["ratios"].append(float(f"{held['ratio']:.4g}"))
    return {
        "scenarios": {
            name: {metric: float(f"{median(found):.4g}") for metric, found in metrics.items()}
            for name, metrics in values.items()
        },
        "relations": {name: dict(held) for name, held in relations.items()},
    }


def night_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page says of a whole nightly, as MEASURED has it without machine and command."""
    spent = run["time"]
    shares = {name: seconds / spent["total_s"] for name, seconds in spent["phases_s"].items()}
    phases = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items() if share >= 0.01)
    valid = [s for s in run["scenarios"] if s["verdict"] not in UNSOUND]
    held = [*run["relations"], *run["ranges"]]
    green = sum(one["verdict"] == "PASS" for one in held)
    return {
        "time": f"{spent['total_s'] / 60:.0f} min, of which {phases}; {len(valid)} of {len(run['scenarios'])} "
        f"scenarios with a valid load, {green} of {len(held)} relations green",
        "scenarios": {
            s["name"]: {
                metric: [float(f"{one['value']:.4g}"), round(one["spread"] or 0.0, 3)]
                for metric, _ in NIGHT
                if (one := s["metrics"].get(metric)) is not None
            }
            for s in valid
            if s["metrics"]
        },
        "relations": {
            one["name"]: ([float(f"{ratio:.4g}") for ratio in ratios], one["verdict"])
            for one in held
            if (ratios := [step["ratio"] for step in one.get("steps", [one]) if step["ratio"] is not None])
        },
    }


def held_again(before: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the relations that MEASURED has, `before`, with those that `runs` held added; figures stay as they are."""
    found = {name: {kind: list(values) for kind, values in held.items()} for name, held in before.items()}
    for name, held in collected(runs)["relations"].items():
        known = found.setdefault(name, {})
        found[name] = {kind: [*known.get(kind, []), *values] for kind, values in held.items()}
    return found


def main() -> None:
    """Write docs/catalogue.md, and before it what the runs named measured; what they did not stays as it was."""
    parser = argparse.ArgumentParser(prog="make catalogue", description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN.json", help="runs whose figures to record anew")
    parser.add_argument("--night", type=Path, metavar="RUN.json", help="a whole nightly, to be shown as such")
    parser.add_argument(
        "--held", nargs="+", default=[], type=Path, metavar="RUN.json", help="runs whose relations to count as well"
    )
    given = parser.parse_args()
    of_both = [load_run(path, "RUN.json") for path in given.runs]
    runs = [run for run in of_both if system_of(run["target"]) == "kafka"]
    before = dict[str, Any](machine="", commands=[])
    if MEASURED.exists():
        before = json.loads(MEASURED.read_text())
    if of_pulsar := [run for run in of_both if system_of(run["target"]) == "pulsar"]:
        there = before.setdefault("pulsar", {"machine": "", "commands": []})
        for name, values in collected(of_pulsar).items():
            there[name] = {**there.get(name, {}), **values}
        MEASURED.write_text(json.dumps(before, indent=1) + "\n")
    if given.night:
        said = {"machine": "", "command": "", **before.get("nightly", {})}  # for a person to state
        before["nightly"] = {**said, **night_of(load_run(given.night, "RUN.json"))}
        MEASURED.write_text(json.dumps(before, indent=1) + "\n")
    if given.held:
        before["relations"] = held_again(before["relations"], [load_run(path, "RUN.json") for path in given.held])
        MEASURED.write_text(json.dumps(before, indent=1) + "\n")
    if runs:
        found = {name: {**before.get(name, {}), **values} for name, values in collected(runs).items()}
        MEASURED.write_text(json.dumps({**before, **found}, indent=1) + "\n")
    PAGE.write_text(current())


def current() -> str:
    """Return the page as it should be now."""
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else None
    of_kafka, of_pulsar = (
        [relation.here(shares_cores=True) for relation in load_relations(catalogue.FOLDER / RELATIONS_FILES[system])]
        for system in SYSTEMS
    )
    return "\n".join([page(FAMILIES, of_kafka, measured), pulsar_page(of_pulsar, (measured or {}).get("pulsar"))])


if __name__ == "__main__":
    main()
