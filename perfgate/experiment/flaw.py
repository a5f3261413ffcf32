"""Flaws: reasons why a round, or some of its metrics, do not count, each with what it explains of a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from perfgate.model import LATENCY_QUANTILES
from perfgate.model.doubt import Doubt, Whose
from perfgate.model.histogram import merged
from perfgate.model.load import Sent

LATENCIES = ("latency_ms", "end_to_end_latency_ms")
"""What a late load spoils: metrics whose names begin so. Its rate is what it is."""
COUNTED = (
    "records_per_s",
    "mib_per_s",
    "received_records_per_s",
    "received_mib_per_s",
    "broker_cpu_us_per_record",
    "broker_network_in_bytes_per_record",
    "client_cpu_us_per_record",
)
"""Metrics that are worse by the share of the load that was not made, or not counted: rates, and costs of a record."""
ECHO = 2.0
"""Records that a generator sends late by some time come together: brokers that take twice the rate work them off within
that time once more. So latencies may be longer by twice the delay without the brokers having changed."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a flaw explains of a loss: of COUNTED a factor, of latencies so many ms, by the beginning of their names."""

    factor: float = 1.0
    late_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flaw:
    """One reason why a round does not count, or why its `metrics` do not (beginnings of names; empty: all of it).

    One that lies with the `generator` is worth another try; `starved`: the brokers used the processors that it lacked.
    One that lies with the `brokers`, because they did not do what they are there for, is a result where they serve
    nobody else, and `lost`, what they had acknowledged, wherever they run; one that is `perhaps_late` is none where the
    machine was busy with something else. `explains`: how much of a loss it may have made; None: nothing where it is the
    brokers', else everything. `kind`: see :class:`perfgate.model.doubt.Doubt`.
    """

    reason: str
    generator: bool = False
    brokers: bool = False
    lost: bool = False
    perhaps_late: bool = False
    metrics: tuple[str, ...] = ()
    explains: Share | None = None
    kind: str = "flaw"
    starved: bool = False

    @property
    def whose(self) -> Whose:
        """Whose doing it is, as far as that is known."""
        if self.brokers or self.starved:
            return "brokers"
        return "load" if self.generator else "unknown"

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """The flaw as values for the judge: what it spoils, and how much of that it explains."""
        doubt = partial(Doubt, kind=self.kind, whose=self.whose, text=self.reason)
        if self.explains is None and self.brokers:
            return (doubt(metrics=self.metrics),)
        if self.explains is None:
            return (doubt(factor=None, metrics=self.metrics),)
        factor, late_ms = self.explains.factor, self.explains.late_ms
        found = [doubt(metrics=self.metrics)]
        if factor > 1:
            # A share of the records that timed out says nothing of the others.
            found += [doubt(factor=factor, metrics=COUNTED), doubt(factor=None, metrics=("timed_out_share",))]
        found += [doubt(offset=ms, metrics=(name,)) for name, ms in late_ms.items() if ms > 0]
        return tuple(found)


def lost_of(window_s: float, lost_s: float) -> float:
    """Return by which factor a rate is lower that was made, or counted, for all of a window but so many seconds."""
    return window_s / (window_s - lost_s) if lost_s < window_s else math.inf


def standing_still(window_s: float, lost_s: float, longest_s: float) -> Share | None:
    """Return what is explained by a load that lacked `lost_s` of its window; no pause was longer than `longest_s`.

    None: everything.
    """
    if not lost_s < window_s:
        return None
    return Share(lost_of(window_s, lost_s), dict.fromkeys((*LATENCIES, "fetch_latency_ms"), 1e3 * ECHO * longest_s))


def sent_late(sent: Sent, metrics: tuple[str, ...] = LATENCIES) -> dict[str, float]:
    """Return by how many ms each latency may be longer because its records were sent late.

    A percentile of a sum is at most the sum of both parts' percentiles halfway to 100 from there.
    """
    delays = merged([sent.schedule_delay])
    late_us = {name: delays.get_value_at_percentile((100 + q) / 2) for name, q in LATENCY_QUANTILES.items()}
    late_us |= {"max": delays.get_max_value(), "avg": delays.get_mean_value()}
    return {f"{metric}.{name}": ECHO * us / 1e3 for metric in metrics for name, us in late_us.items()}
