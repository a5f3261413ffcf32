"""The comparisons whose error rates are published: a line for each kind, and the entries that are recorded of them."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfgate.judge.besides import NOT_THE_SAME_READ
from perfgate.model import DECIDES_PACED
from perfgate.model.errors import ConfigurationError

ROOT = Path(__file__).parents[1]
RAW = Path(__file__).parent / "results" / "compare_quality.jsonl"
SHIPPED = ROOT / "changes"
KEPT = (
    "records_per_s",
    "broker_cpu_us_per_record",
    DECIDES_PACED,
    *NOT_THE_SAME_READ,
    "latency_ms.p50",
    "client_cpu_us_per_record",
    "broker_compile_share.max",
)
"""The metrics of each round that are recorded: what decides, what a SAME is held to besides, what people ask for."""
DIGITS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One kind of comparison: `runs` live ones of a scenario with a change, each within `minutes`.

    `change`: the text of its file. `must`: what it has to reach. `nothing`: nothing differs, so that SLOWER and FASTER
    are wrong. `sized`: its true effect is measured apart. `both`: what both sides have beside the scenario's own
    settings, as after --set. `resampled`: effects and budgets (min) to draw comparisons for from its units; an effect
    of None leaves the units as they were recorded, another is laid over units whose own mean effect is taken off.
    """

    name: str
    change: str
    scenario: str
    runs: int
    minutes: float
    must: str = ""
    nothing: bool = False
    sized: bool = False
    both: tuple[tuple[str, str], ...] = ()
    tier: str = "smoke"
    arguments: tuple[str, ...] = ()
    beside_recorded: bool = False
    """Whether the A/A pairs that another line has recorded tell of the scatter too, where there are enough."""
    resampled: tuple[tuple[float | None, float], ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """What the command has beside the scenario and the change."""
        return (*self.arguments, *(text for path, value in self.both for text in ("--set", f"{path}={value}")))

    @property
    def stated(self) -> dict[str, Any]:
        """What the change file says."""
        return tomllib.loads(self.change)

    def is_of(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a recorded entry is of this line as it is now, whichever of its settings were changed."""
        mine = (self.name, self.stated, self.scenario, self.minutes)
        return mine == tuple(entry.get(key) for key in ("line", "change", "scenario", "budget_min"))


def with_broker(name: str, settings: Mapping[str, str], *, pairs: bool = False) -> str:
    """Return a change file that gives these settings to the brokers; `pairs`: at the start of clusters of their own."""
    own = "pairs = true\n" if pairs else ""
    lines = "".join(f'"{key}" = "{value}"\n' for key, value in settings.items())
    return f'name = "{name}"\n{own}[broker]\n{lines}'


def shipped(name: str) -> str:
    """Return the text of a change file that is shipped."""
    return (SHIPPED / f"{name}.toml").read_text(encoding="utf-8")


# What a setting does depends on the day's processors and disk: compression by snappy said -15 % on one machine and
# nothing on another, where lz4 said -40 %, and a flush every 1,000 messages -27 %. --sizes says it of the day.
KAFKA_3 = ("--kafka-version", "3.9.1")
# A link is the limit of these scenarios, and not the machine. Their declared buffer of 32 MiB, at 1,300 to 5,000
# records/s of 1 KiB, would take 25 to 7 s to drain after each burst.
OF_ANY_TIER = ("--family", "cross-az")
FAR: tuple[tuple[str, str], ...] = (("producer.queue.buffering.max.kbytes", "512"),)
# The same as a scenario of its own: recorded A/A pairs count for what is as declared alone.
SHORT = "cross-az-2ms-short"
OF_ITS_OWN = ("--scenarios", "benchmarks/scenarios")
NEAR = (
    Line(
        name="dynamic-same",
        change=with_broker("num.io.threads as they are", {"num.io.threads": "8"}),
        scenario="batch-1k",
        runs=12,
        minutes=5.0,
        nothing=True,
        must="0 of 12 false; <= 1 % resampled",
        resampled=((0.0, 5.0), (-0.10, 5.0)),
    ),
    Line(
        name="dynamic-10",
        change=with_broker("a flush every 3,000 messages", {"log.flush.interval.messages": "3000"}),
        scenario="batch-1k",
        sized=True,
        runs=8,
        minutes=5.0,
        must="8 of 8 called within 5 min; >= 95 % resampled",
        resampled=((None, 5.0), (-0.10, 5.0)),
    ),
    Line(
        name="fresh-same",
        change=shipped("nothing-on-pairs"),
        scenario="batch-1k",
        runs=6,
        minutes=15.0,
        nothing=True,
        must="0 of 6 false, interval <= +-8 % in 15 min; <= 1 % resampled",
        resampled=((0.0, 12.0), (0.0, 15.0), (-0.20, 10.0), (-0.10, 25.0)),
    ),
    Line(
        name="static-20",
        change=with_broker("brokers compress by lz4", {"compression.type": "lz4"}, pairs=True),
        scenario="batch-1k",
        sized=True,
        runs=6,
        minutes=10.0,
        beside_recorded=True,
        must="6 of 6 called within 10 min; >= 95 % resampled; 10 %: >= 90 % within 25 min",
        resampled=((None, 10.0), (-0.20, 10.0), (-0.10, 25.0)),
    ),
)


def _far(name: str, ms: int, flush: int = 0) -> Line:
    """Return a line of a scenario that waits for a link; `flush`: what its change is there, after so many messages.

    Flushes wait for one another: one for each message costs as much as the link of 2 ms itself.
    """
    (near,) = (line for line in NEAR if line.name == name)
    change = near.change
    if flush:
        settings = {"log.flush.interval.messages": str(flush)}
        change = with_broker(f"a flush every {flush} messages", settings, pairs=bool(near.stated.get("pairs")))
    return replace(
        near, name=f"{name}-{ms}ms", scenario=f"cross-az-{ms}ms", change=change, both=FAR, arguments=OF_ANY_TIER
    )


LINES = (
    *NEAR,
    _far("dynamic-same", 10),
    _far("dynamic-10", 2, flush=12),
    _far("fresh-same", 2),
    replace(_far("static-20", 2, flush=4), scenario=SHORT, both=(), arguments=OF_ITS_OWN),
    Line(
        name="fresh-same-acks-all",
        change=shipped("nothing-on-pairs"),
        scenario="acks-all",
        runs=1,
        minutes=30.0,
        nothing=True,
        must="recorded pairs for version-acks-all",
        resampled=((0.0, 30.0), (-0.10, 30.0)),
    ),
    Line(
        name="first-tier",
        change='name = "first compiler tier"\n\n[cluster]\njvm = "-XX:TieredStopAtLevel=1"\n',
        scenario="batch-16k",
        runs=6,
        minutes=8.0,
        must="6 of 6 SLOWER within 8 min",
    ),
    Line(
        name="end-to-end-same",
        change=shipped("nothing"),
        scenario="end-to-end-1k",
        tier="nightly",
        runs=1,
        minutes=15.0,
        nothing=True,
        must="none false; <= 1 % resampled; a factor of 1.3 in p99: 9 of 10 told, resampled",
        resampled=((0.0, 15.0), (0.30, 15.0)),
    ),
    Line(
        name="end-to-end-linger",
        change='name = "linger 2"\n\n[producer]\n"linger.ms" = 2\n',
        scenario="end-to-end-1k",
        tier="nightly",
        runs=1,
        minutes=15.0,
        resampled=((0.0, 15.0), (0.30, 15.0)),
    ),
    Line(
        name="end-to-end-flush",
        change=with_broker("a flush every 10 messages", {"log.flush.interval.messages": "10"}),
        scenario="end-to-end-1k",
        tier="nightly",
        runs=2,
        minutes=15.0,
        must="SLOWER: some 1.3 times the p99",
    ),
    *(
        Line(
            name=f"version-{scenario}",
            change=shipped("kafka-4.3"),
            scenario=scenario,
            runs=1,
            minutes=30.0,
            tier=tier,
            arguments=KAFKA_3,
            beside_recorded=tier == "smoke",  # those of end-to-end-1k are not recorded
            must="interval <= +-8 % in 30 min",
            resampled=((0.0, 20.0), (0.0, 30.0)) if tier == "smoke" else (),
        )
        for scenario, tier in (("batch-1k", "smoke"), ("acks-all", "smoke"), ("end-to-end-1k", "nightly"))
    ),
    *(
        Line(
            name=f"example-{name}",
            change=shipped(name),
            scenario=scenario,
            runs=1,
            minutes=minutes,
            arguments=OF_ITS_OWN if scenario == SHORT else (),
            beside_recorded=scenario == SHORT,
        )
        for name, scenario, minutes in (
            ("compression-lz4", "batch-16k", 3.0),
            ("acks-all", "replicas-3", 3.0),
            ("flush-10000", "batch-16k", 3.0),  # 10,000 records of a partition have to be sent within a burst
            ("nothing", "cross-az-2ms", 3.0),
            ("linger-5", "cross-az-2ms", 3.0),
            ("io-threads-2", "cross-az-2ms", 3.0),
            ("client-2.11", "cross-az-2ms", 3.0),
            ("network-threads-8", "cross-az-2ms", 6.0),
            ("zgc", SHORT, 15.0),
            ("heap-1g", SHORT, 15.0),
        )
    ),
)


def chosen(
    names: Sequence[str], minutes: Mapping[str, str], runs: Mapping[str, str], settings: Mapping[str, str]
) -> list[Line]:
    """Return the lines of these names (none: all), with other budgets, numbers of runs, or settings of the brokers.

    Raises ConfigurationError for a name that is no line's.
    """
    known = {line.name: line for line in LINES}
    for name in (*names, *minutes, *runs, *settings):
        if name not in known:
            raise ConfigurationError(f"{name!r} is no line; there are: {', '.join(known)}")
    for name, value in minutes.items():
        known[name] = replace(known[name], minutes=float(value))
    for name, value in runs.items():
        known[name] = replace(known[name], runs=int(value))
    for name, value in settings.items():
        line, (setting, _, to) = known[name], value.partition("=")
        told = with_broker(f"{setting} {to}", {setting: to}, pairs=bool(line.stated.get("pairs")))
        known[name] = replace(line, change=told)
    return [line for name, line in known.items() if name in names or not names]


def recorded(path: Path = RAW) -> list[dict[str, Any]]:
    """Return what has been recorded; a last line that was cut off is left out."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(text))
        except ValueError:
            continue  # a run of this program was ended while it wrote
    return found


def note(entry: Mapping[str, Any], path: Path = RAW) -> None:
    """Append an entry."""
    path.parent.mkdir(exist_ok=True)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    with path.open("a", encoding="utf-8") as lines:
        lines.write(("\n" if text and not text.endswith("\n") else "") + json.dumps(entry) + "\n")


def comparison_facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a run that compared one scenario: its verdict, its raw rounds, its machine."""
    (found,) = document["comparisons"]
    environment = document["environment"]
    return {
        "run": document["run_id"],
        "started": document["started"],
        "kafka": [found[side]["declared"]["cluster"]["version"] for side in ("baseline", "candidate")],
        "machine": {key: environment[key] for key in ("cpu_model", "cores", "memory_mib", "kernel", "commit")},
        **{
            key: found[key]
            for key in (
                "verdict",
                "metric",
                "estimate",
                "interval",
                "reasons",
                "method",
                "units",
                "planned_units",
                "rounds_per_unit",
                "orders",
                "minutes",
                "recorded",
            )
        },
        "notable": [
            [one["metric"], *map(_rounded, (one["estimate"], *one["interval"]))]
            for one in found["others"]
            if one["notable"] and one["metric"] in KEPT
        ],
        "discarded": len(found["baseline"]["discarded_rounds"]),
        "invalid": sum(
            not all(flaw["metrics"] for flaw in one["flaws"])
            for side in ("baseline", "candidate")
            for one in found[side]["rounds"]
        ),
        "rounds": {side: columns(found[side]["rounds"]) for side in ("baseline", "candidate")},
    }


def columns(rounds: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Return the metrics of KEPT that any of these rounds has, each with its value in every round."""
    metrics = [name for name in KEPT if any(name in one["metrics"] for one in rounds)]
    return {
        name: [_rounded(one["metrics"][name]) if name in one["metrics"] else None for one in rounds] for name in metrics
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def log_interval(entry: Mapping[str, Any]) -> float | None:
    """Return half the width of an entry's interval, as a logarithm; None where it has none."""
    return half_width(entry["interval"]) if entry.get("interval") else None


def half_width(interval: Sequence[float]) -> float:
    """Return half the width of an interval of a share, as a logarithm."""
    low, high = map(math.log1p, interval)
    return (high - low) / 2
