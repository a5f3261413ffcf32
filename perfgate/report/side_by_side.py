"""Kafka and Pulsar side by side, from recorded runs, unjudged: ``kafka-perf-gate side-by-side --recorded``."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfgate.judge.phrases import number
from perfgate.judge.rates import AT_THE_CAP
from perfgate.judge.statistics import CONFIDENCE, LARGEST_LOG
from perfgate.model import SYSTEM_NAMES, Measurement, Scenario, metric_info, system_of
from perfgate.model.command import command_line
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import UNSOUND
from perfgate.model.pages import page
from perfgate.model.summary import centre, metric_value
from perfgate.model.system import SYSTEMS, System, release_of
from perfgate.model.usual import tier_options
from perfgate.report.next_steps import gate_command, target_here
from perfgate.report.results import load_run, recorded_measurements, recorded_runs, run_files
from perfgate.report.runs_alike import why_not_plain
from perfgate.report.terminal import Terminal, write_table

RATE = "records_per_s"
LATENCIES = ("latency_ms.p99", "end_to_end_latency_ms.p99")
METRICS = (RATE, *LATENCIES, "broker_cpu_us_per_record", "broker_rss_mib.sum")
COLUMNS = ("scenario", "metric", "Kafka", "Pulsar", "Pulsar / Kafka", "95 % interval", "so")
MACHINE = ("cpu_model", "cores", "memory_mib")
NO_FLUSH, FSYNC = "page cache", "fsync"
FEWEST_RUNS = 3
"""From this many runs of each system on their scatter counts, else that of the rounds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A scenario of both systems: their measurements by run, or the reason why they are not set side by side."""

    name: str
    kafka: tuple[Measurement, ...]
    pulsar: tuple[Measurement, ...]
    why_not: str

    @property
    def kept(self) -> str:
        """What either keeps, in a line."""
        kafka, pulsar = self.kafka[0].scenario, self.pulsar[0].scenario
        copies, acks = kafka.topic.replication_factor, dict(kafka.producer).get("acks", "all")
        return f"Kafka {copies} replicas, acks={acks}, {durability(kafka)}; Pulsar {pulsar.kept}"


def durability(scenario: Scenario) -> str:
    if scenario.cluster.system == "pulsar":
        return scenario.cluster.durability
    return FSYNC if dict(scenario.topic.config).get("flush.messages") == "1" else NO_FLUSH


def not_comparable(kafka: Scenario, pulsar: Scenario) -> str:
    """Return the first difference of two scenarios besides their system; empty where they mean the same."""
    for (what, of_kafka), of_pulsar in zip(_compared(kafka).items(), _compared(pulsar).values(), strict=True):
        if of_kafka != of_pulsar:
            return f"{what}: {of_kafka} on Kafka, {of_pulsar} on Pulsar"
    acks = dict(kafka.producer).get("acks", "all")
    if kafka.topic.replication_factor > 1 and acks not in ("all", "-1"):
        return f"acks={acks} on Kafka with copies: what Pulsar acknowledges, a quorum of bookies has"
    return ""


def _compared(scenario: Scenario) -> dict[str, str]:
    """Return all that has to be the same on both systems, in words."""
    readers = scenario.consumers
    return {
        "records": f"{scenario.record_bytes:,} B",
        "load": f"{scenario.load.kind}, {scenario.load.rate:,.0f} records/s",
        "partitions": f"{scenario.topic.partitions}",
        "copies": f"{scenario.topic.replication_factor}",
        "durability": durability(scenario),
        "brokers": f"{scenario.cluster.brokers}",
        "producers": f"{scenario.producers} x {scenario.threads}",
        "consumers": f"{readers.groups} x {readers.processes * readers.threads}" if readers else "none",
        "payload": f"{scenario.payload.kind}, {scenario.keys.kind} keys",
        "link": scenario.link.name,
    }


def pairs(runs: Mapping[System, Sequence[Mapping[str, Any]]]) -> Iterator[Pair]:
    """Yield every scenario that runs of both systems measured soundly, in the order of the first run of Kafka."""
    measured = {system: _sound(of_system) for system, of_system in runs.items()}
    for name, of_kafka in measured["kafka"].items():
        if of_pulsar := measured["pulsar"].get(name):
            why_not = not_comparable(of_kafka[0].scenario, of_pulsar[0].scenario)
            yield Pair(name=name, kafka=tuple(of_kafka), pulsar=tuple(of_pulsar), why_not=why_not)


def _sound(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Measurement]]:
    by_scenario: dict[str, list[Measurement]] = {}
    for run in runs:
        unsound = {entry["name"] for entry in run["scenarios"] if entry["verdict"] in UNSOUND}
        for name, measurement in recorded_measurements(run).items():
            if name not in unsound and measurement.rounds:
                by_scenario.setdefault(name, []).append(measurement)
    return by_scenario


def values_of(measurements: Sequence[Measurement], metric: str) -> list[float]:
    """Return the values that scatter: those of the runs, or of the rounds where the runs are few."""
    if len(measurements) >= FEWEST_RUNS:
        return [value for m in measurements if (value := metric_value(m, metric)) is not None]
    return [r.metrics[metric] for m in measurements for r in m.rounds if metric in r.metrics and not r.spoilt(metric)]


def ratio_of(kafka: Sequence[float], pulsar: Sequence[float]) -> tuple[float, tuple[float, float]] | None:
    """Return Pulsar's figure over Kafka's and its 95 % interval; None of fewer than two values, or of none above 0.

    Of the logarithms' means, by Welch's t: the two systems scatter otherwise.
    """
    if min(len(kafka), len(pulsar)) < 2 or min(*kafka, *pulsar) <= 0:
        return None
    from scipy import special  # a run's own reports do without

    logs = [[math.log(value) for value in values] for values in (kafka, pulsar)]
    over = statistics.mean(logs[1]) - statistics.mean(logs[0])
    shares = [statistics.variance(values) / len(values) for values in logs]
    error = math.sqrt(sum(shares))
    if not error:
        return math.exp(over), (math.exp(over), math.exp(over))
    freedom = sum(shares) ** 2 / sum(share**2 / (len(values) - 1) for share, values in zip(shares, logs, strict=True))
    reach = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return math.exp(over), (math.exp(max(over - reach, -LARGEST_LOG)), math.exp(min(over + reach, LARGEST_LOG)))


def rows(compared: Sequence[Pair]) -> list[tuple[str, ...]]:
    cells: list[tuple[str, ...]] = []
    for pair in compared:
        for metric in METRICS if not pair.why_not else ():
            kafka, pulsar = (values_of(measured, metric) for measured in (pair.kafka, pair.pulsar))
            if kafka and pulsar and not (metric == RATE and pair.kafka[0].scenario.load.fixed_rate):
                cells.append(_row(pair, metric, kafka, pulsar))
    return cells


def _row(pair: Pair, metric: str, kafka: Sequence[float], pulsar: Sequence[float]) -> tuple[str, ...]:
    figures = [number(centre(values)) for values in (kafka, pulsar)]
    ratio = ratio_of(kafka, pulsar)
    if ratio is None:
        return (pair.name, metric, *figures, "-", "-", "too few values")
    estimate, (low, high) = ratio
    cap = AT_THE_CAP * pair.kafka[0].scenario.load.rate
    if metric == RATE and any(min(values) >= cap for values in (kafka, pulsar)):
        words = "at the cap of the load: no comparison"
    else:
        words = "not told apart" if low <= 1 <= high else f"Pulsar {'more' if estimate > 1 else 'less'}"
    info = metric_info(metric)
    assert info is not None
    said = (f"{estimate:.2f}", f"{low:.2f} .. {high:.2f}", words)
    return (pair.name, f"{metric}, {info.better} is better", *figures, *said)


def chosen(documents: Sequence[Mapping[str, Any]]) -> dict[System, list[Mapping[str, Any]]]:
    """Return each system's runs on the newest run's machine and tier, oldest first. Raises ConfigurationError."""
    plain = sorted((run for run in documents if not why_not_plain(run)), key=lambda run: str(run["run_id"]))
    if not plain:
        none = f"no recorded run can stand here{_passed_over(documents)}" if documents else "no recorded run"
        raise ConfigurationError(f"{none}: {command_line('side-by-side')} makes one of each system")
    like = plain[-1]
    alike = [run for run in plain if _where(run) == _where(like)]
    by_system: dict[System, list[Mapping[str, Any]]] = {}
    for system in SYSTEMS:
        by_system[system] = [run for run in alike if system_of(run["target"]) == system]
        if not by_system[system]:
            tier = like["tier"]
            missing = gate_command(*tier_options(tier), target=target_here(like), tier=tier["name"], system=system)
            raise ConfigurationError(
                f"no run of {SYSTEM_NAMES[system]} on the machine and in the tier of run {like['run_id']}: {missing}"
                + _passed_over([run for run in documents if system_of(run["target"]) == system])
            )
    return by_system


def _passed_over(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the reason why the newest of these runs, and so none of them, is taken, in brackets."""
    if not documents:
        return ""
    newest = max(documents, key=lambda run: str(run["run_id"]))
    reason = why_not_plain(newest) or f"run {newest['run_id']} is of another machine, target or tier"
    return f" ({reason})"


def _where(document: Mapping[str, Any]) -> tuple[object, ...]:
    machine = (document["environment"].get(name) for name in MACHINE)
    return (document["target"]["kind"], document["tier"], *machine)


def write(terminal: Terminal, runs: Mapping[System, Sequence[Mapping[str, Any]]]) -> None:
    """Write the table, the settings that make its rows comparable, and what is left out with the reason."""
    compared = list(pairs(runs))
    for own in runs.values():
        names = ", ".join(str(run["run_id"]) for run in own)
        terminal.write_line(f"{release_of(own[-1]['target'])}: {names}")
    write_table(terminal, COLUMNS, rows(compared))
    for pair in compared:
        left_out = f"left out: {pair.name}: {pair.why_not}"
        terminal.write_line(left_out if pair.why_not else f"{pair.name}: {pair.kept}")
    few = min(len(own) for own in runs.values()) < FEWEST_RUNS
    scatter = "rounds; another start of either system can differ by more" if few else "runs"
    terminal.write_line(
        f"The intervals are of the scatter of these {scatter}. CPU is of all processes of a system: three brokers, or "
        f"brokers, bookies and the metadata store. Nothing is judged here ({page('pulsar')})."
    )


class Printer:
    isatty = False

    def write(self, content: str) -> None:
        print(content, end="")

    def write_line(self, line: str, **_: bool) -> None:
        print(line)


def show(paths: Sequence[Path], results: Path) -> int:
    """Print the table of these files, or of the newest run of each system in `results`; return the exit code."""
    try:
        runs = chosen([load_run(path, "RUN.json") for path in paths] or list(recorded_runs(run_files(results))))
        write(Printer(), runs if paths else {system: own[-1:] for system, own in runs.items()})
    except ConfigurationError as error:
        print(f"not side by side: {error}", file=sys.stderr)
        return 2
    return 0
