"""Rounds with given rates, and measurements of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from perfgate.model import Accounting, GeneratorReport, Load, Measurement, Round, Scenario, TopicSpec
from perfgate.model.flaw import Flaw
from perfgate.model.histogram import LatencyRecorder, encode
from perfgate.report.shape import flaws_of

GENERATOR = GeneratorReport(
    cpu_cores=0.5, busiest_thread_cores=0.3, rss_mib=80.0, pushback_share=0.9, schedule_delay_p99_ms=None
)


def scenario(name: str = "batch-1k", families: tuple[str, ...] = ("batch-size",)) -> Scenario:
    """Return a row of this name."""
    return Scenario(
        name=name,
        summary="a row",
        families=families,
        factor=(("batch.size", "1024"),),
        topic=TopicSpec(partitions=3, replication_factor=1),
        producer=(("acks", "1"),),
        record_bytes=1024,
        load=Load(kind="capped", rate=1_000_000.0),
    )


def histogram(latencies_s: Sequence[float]) -> str:
    """Return the encoded histogram of these latencies."""
    recorder = LatencyRecorder()
    recorder.record(np.array(latencies_s, np.float64))
    return encode(recorder.histogram())


def accounting(records: int = 1000, **changes: int) -> Accounting:
    """Return a sound accounting of `records`, with `changes`."""
    values: dict[str, Any] = {
        "attempted": records,
        "acked": records,
        "unresolved": 0,
        "offset_delta": records,
        **changes,
    }
    return Accounting(failed={}, **values)


def one_round(
    index: int,
    rate: float,
    *,
    cpu_us: float = 50.0,
    invalid: tuple[str, ...] = (),
    spoilt: Mapping[str, str] = MappingProxyType({}),
) -> Round:
    """Return a round with this rate and broker CPU per record."""
    return Round(
        index=index,
        window_s=2.0,
        warmup_s=1.0,
        steady=True,
        metrics={
            "records_per_s": rate,
            "broker_cpu_us_per_record": cpu_us,
            "broker_cpu_cores.1": 0.5,
            "latency_ms.p99": 4.0,
        },
        accounting=accounting(),
        generator=GENERATOR,
        latency_histogram=histogram([0.001, 0.002, 0.004]),
        flaws=flaws_of({"invalid": invalid, "invalid_metrics": spoilt}),
    )


def flaw_entry(text: str, **changes: Any) -> dict[str, Any]:
    """Return a flaw of a round as run.json has it."""
    return asdict(Flaw(text, **changes))


def late_texts(one: Round) -> tuple[str, ...]:
    """Return the reasons of what may only have been late."""
    return tuple(flaw.text for flaw in one.flaws if flaw.late)


OLD = ("invalid", "broken", "perhaps_late", "invalid_metrics", "doubts")
"""Parts of what is wrong with a round, each of them by itself."""


def flawed(one: Round, **changes: Any) -> Round:
    """Return the round with these fields, or with these parts of what is wrong with it (OLD)."""
    parts = {name: changes.pop(name) for name in OLD if name in changes}
    if parts:
        before = {"invalid": one.invalid, "broken": one.broken, "perhaps_late": late_texts(one)}
        old = {**before, "invalid_metrics": one.invalid_metrics, **parts}
        told = {*old["invalid"], *old["broken"], *old["invalid_metrics"].values()}
        changes["flaws"] = flaws_of({"doubts": [doubt for doubt in one.doubts if doubt.text in told], **old})
    return replace(one, **changes)


def measurement(rates: Sequence[float], name: str = "batch-1k", *, cpu_us: float = 50.0) -> Measurement:
    """Return a measurement with a round per rate."""
    rounds = tuple(one_round(i, rate, cpu_us=cpu_us) for i, rate in enumerate(rates, start=1))
    return Measurement(
        scenario=scenario(name), rounds=rounds, rtt_ms={"same-zone": 0.3}, by_hand="kafka-producer-perf-test.sh"
    )
