"""Flaws: reasons why a round, or some of its metrics, do not count, each with what it explains of a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from perfgate.model import LATENCY_QUANTILES
from perfgate.model.flaw import EVERYTHING, NOTHING, Flaw, Part
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
NO_DELAY: Mapping[str, float] = MappingProxyType({})
ECHO = 2.0
"""Records that a generator sends late by some time come together: brokers that take twice the rate work them off within
that time once more. So latencies may be longer by twice the delay without the brokers having changed."""


Explained = tuple[Part, ...]


def share(factor: float = 1.0, late_ms: Mapping[str, float] = NO_DELAY) -> Explained:
    """Return what a flaw explains of a loss: of COUNTED a factor, of latencies so many ms, by how their names begin."""
    found = [*NOTHING]
    if factor > 1:
        # A share of the records that timed out says nothing of the others.
        found += [Part(factor=factor, metrics=COUNTED), Part(factor=None, metrics=("timed_out_share",))]
    found += [Part(offset=ms, metrics=(name,)) for name, ms in late_ms.items() if ms > 0]
    return tuple(found)


def of_generator(text: str, explains: Explained = EVERYTHING, *, kind: str, metrics: tuple[str, ...] = ()) -> Flaw:
    """Return a flaw that lies with the generator, so that the round is worth another try."""
    return Flaw(text, kind=kind, whose="load", again=True, metrics=metrics, explains=explains)


def of_brokers(text: str, *, theirs: bool = True, late: bool = False, lost: bool = False, kind: str = "flaw") -> Flaw:
    """Return a flaw that lies with the brokers: what they failed to do explains nothing of what they are slower by.

    Unless it is not known to be `theirs`. `lost`: what they had promised to keep, a result wherever they run.
    """
    if not theirs:
        return Flaw(text, kind=kind)
    return Flaw(text, kind=kind, whose="brokers", late=late, broken=lost, explains=NOTHING)


def lost_of(window_s: float, lost_s: float) -> float:
    """Return by which factor a rate is lower that was made, or counted, for all of a window but so many seconds."""
    return window_s / (window_s - lost_s) if lost_s < window_s else math.inf


def standing_still(window_s: float, lost_s: float, longest_s: float) -> Explained:
    """Return what is explained by a load that lacked `lost_s` of its window; no pause was longer than `longest_s`.

    That is everything where it lacked all of it.
    """
    if not lost_s < window_s:
        return EVERYTHING
    return share(lost_of(window_s, lost_s), dict.fromkeys((*LATENCIES, "fetch_latency_ms"), 1e3 * ECHO * longest_s))


def sent_late(sent: Sent, metrics: tuple[str, ...] = LATENCIES) -> dict[str, float]:
    """Return by how many ms each latency may be longer because its records were sent late.

    A percentile of a sum is at most the sum of both parts' percentiles halfway to 100 from there.
    """
    delays = merged([sent.schedule_delay])
    late_us = {name: delays.get_value_at_percentile((100 + q) / 2) for name, q in LATENCY_QUANTILES.items()}
    late_us |= {"max": delays.get_max_value(), "avg": delays.get_mean_value()}
    return {f"{metric}.{name}": ECHO * us / 1e3 for metric in metrics for name, us in late_us.items()}
