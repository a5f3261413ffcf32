"""The capacity sheet, from a measured knee: ``kafka-perf-gate capacity``."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from perfgate.judge.phrases import number
from perfgate.model.counting import counted
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import UNSOUND
from perfgate.model.system import system_of
from perfgate.report.next_steps import gate_command, target_here
from perfgate.report.results import load_run, recorded_shares_cores

KNEE, CPU = "knee_records_per_s", "broker_cpu_us_per_record"
NO_KNEE = {None, *UNSOUND}
SPAN = re.compile(r"(\d+(?:\.\d+)?)([hdw])")
DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
DAY_S = 86_400
LARGEST = 1e15
"""Of a number that an option takes."""
ON_DISK = 1.1
"""Disk for indexes and segments not deleted yet, as a factor (reference R5's disk formula)."""
BELOW_KNEE = 0.9
"""Share of the knee that a cluster is planned for; the search measures it, and the service level is met there."""
CPU_SHARE = 0.7
"""Share of a broker's cores that is planned for: the rest is for replicas that catch up, and bursts."""
MOST_BROKERS, MOST_SIZE = 4.0, 2.0
"""Times the measured brokers and record size up to which a sheet reaches: how a cluster scales further is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Figures of a scenario on a cluster of `brokers`; the knee, and the CPU for a record, are of all together."""

    knee_records_per_s: float
    cpu_us_per_record: float
    brokers: int
    record_bytes: int
    replicas: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The load that is planned for: its peak `rate` in records/s, bytes of a record before compression, retention.

    `reads`: groups that read everything; `bandwidth_mb_per_s`: usable, of a broker, in each direction; `cores` of one.
    """

    rate: float
    record_bytes: int
    replicas: int
    days: float
    compression: float = 1.0
    reads: int = 1
    bandwidth_mb_per_s: float | None = None
    cores: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """What the load needs; `*_brokers`: what each limit alone asks for, None: not known.

    `brokers`: the largest of them and one, so that a broker may be down. `reach`: those needed over those measured.
    """

    disk_bytes: float
    in_bytes_per_s: float
    replication_bytes_per_s: float
    out_bytes_per_s: float
    cpu_cores: float
    rate_brokers: int
    cpu_brokers: int | None
    bandwidth_brokers: int | None
    brokers: int
    reach: float


def capacity(wanted: Wanted, measured: Measured) -> Sheet:
    """Return the sheet of a load. Raises ConfigurationError where it lies too far from what was measured."""
    size = wanted.record_bytes / measured.record_bytes
    if not 1 / MOST_SIZE <= size <= MOST_SIZE:
        raise ConfigurationError(
            f"records of {wanted.record_bytes:,} bytes are {max(size, 1 / size):.3g} x those measured "
            f"({measured.record_bytes:,} bytes); a sheet reaches {MOST_SIZE:g} x: measure them (--set record.bytes="
            f"{wanted.record_bytes} --family rate-ramp)"
        )
    # Each copy is taken to cost the same, and a shorter record no less.
    work = wanted.replicas / measured.replicas * max(1, size)
    on_wire = wanted.rate * wanted.record_bytes * wanted.compression
    replication, out = on_wire * (wanted.replicas - 1), on_wire * wanted.reads
    cores = wanted.rate * measured.cpu_us_per_record * work / 1e6
    per_broker = BELOW_KNEE * measured.knee_records_per_s / measured.brokers
    by_rate = _whole(wanted.rate * work / per_broker)
    by_cpu = _whole(cores / (CPU_SHARE * wanted.cores)) if wanted.cores else None
    busier, usable = max(on_wire, out) + replication, (wanted.bandwidth_mb_per_s or 0) * 1e6  # in, or out
    by_bandwidth = _whole(busier / usable) if usable else None
    needed = max(by_rate, by_cpu or 0, by_bandwidth or 0, wanted.replicas)
    reach = needed / measured.brokers
    if reach > MOST_BROKERS:
        raise ConfigurationError(
            f"{needed} brokers are {reach:.3g} x the {measured.brokers} that were measured; a sheet reaches "
            f"{MOST_BROKERS:g} x: measure a larger cluster (--set cluster.brokers=...), or real brokers"
        )
    return Sheet(
        disk_bytes=on_wire * DAY_S * wanted.replicas * wanted.days * ON_DISK,
        in_bytes_per_s=on_wire,
        replication_bytes_per_s=replication,
        out_bytes_per_s=out,
        cpu_cores=cores,
        rate_brokers=by_rate,
        cpu_brokers=by_cpu,
        bandwidth_brokers=by_bandwidth,
        brokers=needed + 1,
        reach=reach,
    )


def _whole(brokers: float) -> int:
    return max(1, math.ceil(brokers))


def measured_of(document: Mapping[str, Any], scenario: str = "") -> tuple[str, Measured]:
    """Return the scenario of a run.json whose knee was measured, and its figures. Raises ConfigurationError."""
    run = f"run {document['run_id']}"
    if system_of(document["target"]) != "kafka":
        raise ConfigurationError(
            f"{run} is of Pulsar, where brokers carry the rate and bookies the copies and the disk: the sheet is of "
            "Kafka's brokers, which do both"
        )
    knees = {e["name"]: e for e in document["scenarios"] if KNEE in e["metrics"] and e["verdict"] not in NO_KNEE}
    sound = [name for name, entry in knees.items() if not _flawed(entry)]
    if scenario and scenario not in knees:
        raise ConfigurationError(f"{run} has no sound knee of {scenario!r}; it has {', '.join(sound) or 'none'}")
    if not knees:
        ramp = gate_command("--family", "rate-ramp", "--rounds", "2", target=target_here(document))
        raise ConfigurationError(f"{run} measured no knee; one that does: {ramp}")
    if len(sound) > 1 and not scenario:
        raise ConfigurationError(f"{run} measured several knees; name one with --scenario: {', '.join(sound)}")
    name = scenario or next(iter(sound or knees))
    entry = knees[name]
    if flaw := _flawed(entry):
        raise ConfigurationError(f"{run} has no sound knee of {name!r}: {flaw}")
    if CPU not in entry["metrics"]:
        raise ConfigurationError(f"{run} could not read the brokers' CPU, which the sheet goes by")
    declared = entry["declared"]
    brokers = declared["cluster"]["brokers"]
    if document["target"]["kind"] == "brokers":
        real = document["target"]["brokers"]
        brokers = len(real) if isinstance(real, list) else int(real)
    return name, Measured(
        knee_records_per_s=entry["metrics"][KNEE]["value"],
        cpu_us_per_record=entry["metrics"][CPU]["value"],
        brokers=brokers,
        record_bytes=declared["record_bytes"],
        replicas=declared["topic"]["replication_factor"],
    )


def _flawed(entry: Mapping[str, Any]) -> str:
    """Return the reason why the knee of some round is not the brokers'; empty when all are."""
    return next((flaw["text"] for r in entry["rounds"] for flaw in r["flaws"] if KNEE in flaw["metrics"]), "")


def sheet_text(wanted: Wanted, measured: Measured, sheet: Sheet, *, scenario: str, run: str, shares_cores: bool) -> str:
    w, m = wanted, measured
    left, rate = sheet.brokers - 1, f"{number(w.rate)} records/s"
    copies = f" x {w.replicas}/{m.replicas} replicas" if w.replicas != m.replicas else ""
    size = f" x {w.record_bytes:,}/{m.record_bytes:,} bytes" if w.record_bytes > m.record_bytes else ""
    knee = f"{BELOW_KNEE:g} x the knee of {number(m.knee_records_per_s)} records/s / {m.brokers} brokers"
    cores = f"{rate} x {number(m.cpu_us_per_record)} us{copies}{size} = {sheet.cpu_cores:.2f} cores"
    busier = max(sheet.in_bytes_per_s, sheet.out_bytes_per_s) + sheet.replication_bytes_per_s
    limits = [
        ("rate", sheet.rate_brokers, f"{rate}{copies}{size} / ({knee})"),
        ("CPU", sheet.cpu_brokers, f"{cores} / ({CPU_SHARE:g} x {w.cores or 0:g} cores of a broker)"),
        ("bandwidth", sheet.bandwidth_brokers, f"{_bytes(busier)}/s / {w.bandwidth_mb_per_s or 0:g} MB/s of a broker"),
        ("replicas", w.replicas, "brokers at the least"),
    ]
    unknown = {
        "CPU": f"{cores}; --cores N of a broker tells how many brokers that are",
        "bandwidth": f"{_bytes(busier)}/s in the busier direction; --bandwidth MB/s of a broker tells how many",
    }
    lines = [f"{sheet.brokers} brokers: {left} carry the load, and one may be down.", ""]
    lines += [
        f"  {name:<10} {'-' if brokers is None else brokers:>3}  {unknown[name] if brokers is None else words}"
        for name, brokers, words in limits
    ]
    lines += [
        "",
        f"Disk: {_bytes(sheet.disk_bytes)} in all, {_bytes(sheet.disk_bytes / left)} on each of {left} brokers",
        f"  {rate} x 86,400 s x {w.record_bytes:,} bytes x {w.replicas} replicas x {w.days:g} days x {w.compression:g} "
        f"(compression) x {ON_DISK:g} (indexes, old segments)",
        "Network of all brokers, per second:",
        f"  {_bytes(sheet.in_bytes_per_s)} from producers, {_bytes(sheet.replication_bytes_per_s)} between brokers, "
        f"{_bytes(sheet.out_bytes_per_s)} to {counted(w.reads, 'group')} of consumers",
        f"Measured: {scenario} of run {run}",
        f"  {m.brokers} brokers, {m.record_bytes:,} bytes, {m.replicas} replicas. The sheet goes {sheet.reach:.2g} x "
        "as far (brokers that carry the load over those measured).",
    ]
    if w.replicas != m.replicas:
        lines.append(f"Not measured with {w.replicas} replicas: a copy is taken to cost as much as the first one.")
    if w.record_bytes != m.record_bytes:
        cost = "to cost as much more" if size else "to cost no less than longer ones"
        lines.append(f"Not measured with records of {w.record_bytes:,} bytes: they are taken {cost}.")
    if shares_cores:
        lines.append("The clients shared the cores of the brokers there: brokers with hosts of their own reach more.")
    return "\n".join(lines)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{number(count)} {unit}"
        count /= 1000
    return f"{number(count)} TB"


def wanted_of(asked: Mapping[str, str]) -> Wanted:
    """Return the load of the options. Raises ConfigurationError."""

    def given(name: str, words: str, *, least: float = 0, whole: bool = False) -> float:
        try:
            value = float(asked[name])
        except ValueError:
            value = math.nan
        if not least < value < LARGEST or (whole and value != int(value)):
            raise ConfigurationError(f"--{name} {asked[name]!r} must be {words}")
        return value

    span = SPAN.fullmatch(asked["retention"])
    if not span or not float(span[1]):
        raise ConfigurationError(f"--retention {asked['retention']!r} must be a time, as in 12h, 7d or 2w")
    return Wanted(
        rate=given("rate", "records/s, above 0"),
        record_bytes=int(given("size", "the bytes of a record, a whole number", whole=True)),
        replicas=int(given("replicas", "a whole number, 1 or more", whole=True)),
        days=float(span[1]) * DAYS[span[2]],
        compression=given("compression", "bytes sent over bytes written, as in 0.4"),
        reads=int(given("reads", "how many groups read everything", least=-1, whole=True)),
        bandwidth_mb_per_s=given("bandwidth", "usable MB/s of a broker") if asked["bandwidth"] else None,
        cores=given("cores", "the cores of a broker") if asked["cores"] else None,
    )


@click.command(epilog="\b\nExample: kafka-perf-gate capacity --rate 20000 --size 1024 \\\n--replicas 3 --retention 7d")
@click.option("--rate", required=True, metavar="N", help="Records/s at the peak.")
@click.option("--size", required=True, metavar="BYTES", help="Bytes of a record, before compression.")
@click.option("--replicas", required=True, metavar="N", help="Copies of each record.")
@click.option("--retention", required=True, metavar="TIME", help="How long records stay: 12h, 7d, 2w.")
@click.option("--compression", default="1", show_default=True, metavar="SHARE", help="Bytes sent over bytes written.")
@click.option("--reads", default="1", show_default=True, metavar="N", help="Consumer groups that read everything.")
@click.option("--bandwidth", default="", metavar="MB/S", help="Usable MB/s of a broker, in each direction.")
@click.option("--cores", default="", metavar="N", help="Cores of a broker.")
@click.option("--scenario", default="", metavar="NAME", help="Whose knee, where a run measured several.")
@click.argument("run", type=click.Path(path_type=Path), default="results/latest")
def command(run: Path, scenario: str, **asked: str) -> int:
    """Plan brokers, disk and bandwidth, from a measured knee.

    RUN is the folder of a run that searched for a knee: results/latest if it is left out.
    """
    try:
        wanted = wanted_of(asked)
        document = load_run(run / "run.json", "capacity")
        scenario, measured = measured_of(document, scenario)
        needed = capacity(wanted, measured)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    shares = recorded_shares_cores(document)
    print(sheet_text(wanted, measured, needed, scenario=scenario, run=document["run_id"], shares_cores=shares))
    return 0
