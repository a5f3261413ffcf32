"""Load hosts: their shares of a round, and their round trips to the brokers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from perfgate.load.processes import Generators
from perfgate.load.transport import HostClock, Message, Transport
from perfgate.model import Link, Settings
from perfgate.model.histogram import encode, merged
from perfgate.model.load import Observer
from perfgate.model.measured import HostReport, MachineUse

ROUND_TRIP = "round-trip"
TIMEOUT_S = 300.0
"""For the start of a process on a slow host, a request with TLS and SASL, and seven connections to each broker; once
for the compilation of Pulsar's client, of which a minute is the compiler's way there."""


def host_reports(
    clocks: Mapping[str, HostClock],
    began: Mapping[str, float],
    results: Mapping[str, Message],
    machines: Mapping[str, MachineUse],
    *,
    window_s: float,
) -> tuple[HostReport, ...]:
    """A report for each host; `machines` by its name, all others by that of a process. Empty where `clocks` is.

    `began`: s after the agreed moment. A killed process has no result; one that left its group early no CPU.
    """
    sends = any("acked_in_window" in result for result in results.values())
    names: dict[HostClock, list[str]] = {}
    for name, clock in clocks.items():
        names.setdefault(clock, []).append(name)
    reports = []
    for clock, here in names.items():
        own = [results[name] for name in here if name in results]
        sent = [result for result in own if "acked_in_window" in result]
        counted, count = (sent, "acked_in_window") if sends else (own, "received_in_window")
        pushed_back = [result["pushback_in_window_s"] / result["clients"] / window_s for result in sent]
        delays = merged(result.get("schedule_delay", "") for result in sent)
        report = HostReport(
            name=clock.host,
            processes=len(here),
            done_in_window=sum(result[count] for result in counted),
            done_by=len(counted),
            cpu_cores=sum(result.get("cpu_cores", 0.0) for result in own),
            latency_histogram=added(sent, "latency"),
            clock_ahead_ms=clock.ahead_s * 1e3,
            clock_bound_ms=clock.bound_s * 1e3,
            clock_off_by_ms=clock.off_by_s * 1e3,
            started_late_ms=(max(began[name] for name in here) + clock.used_s - clock.ahead_s) * 1e3,
            busiest_thread_cores=max((result.get("busiest_thread_cores", 0.0) for result in own), default=0.0),
            pushback_share=sum(pushed_back) / len(pushed_back) if pushed_back else 0.0,
            schedule_delay_p99_ms=delays.get_value_at_percentile(99.0) / 1e3 if delays.get_total_count() else None,
            machine=machines.get(clock.host),
            clock_stepped_ms=clock.stepped_s * 1e3,
            time_service=clock.service,
        )
        reports.append(report)
    return tuple(reports)


def added(results: Sequence[Message], name: str) -> str:
    """The sum of the results' histograms of this name; empty where there is none."""
    texts = [result.get(name, "") for result in results]
    return encode(merged(texts)) if any(texts) else ""


def host_rtt_ms(system: str, transport: Transport, link: Link, bootstrap: str, security: Settings) -> float:
    """The median over the hosts of their round trips to the brokers, in ms. Raises LoadError when one reports none."""
    spec: Mapping[str, object] = {
        "role": ROUND_TRIP,
        "system": system,
        "client_path": "",
        "most_s": TIMEOUT_S,
        "bootstrap": bootstrap,
        "client": dict(security),
        "link": link.name,
    }
    nobody = Observer(edge=lambda _at: None, check=lambda: None, progress=lambda _phase, _last: None, written=lambda: 0)
    names = [f"{ROUND_TRIP}-{number}" for number in range(1, transport.size + 1)]
    with Generators(dict.fromkeys(names, spec), transport) as measuring:
        reported = measuring.wait_for("result", TIMEOUT_S, nobody, phase=f"measuring the {link.name} link")
    return statistics.median(float(result["rtt_ms"]) for result in reported)
