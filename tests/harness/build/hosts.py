"""Reports of load hosts."""

import numpy as np

from perfgate.model import HostReport, MachineUse
from perfgate.model.histogram import LatencyRecorder, encode

MACHINE = MachineUse(
    with_run=False,
    cores=4,
    cpu_share=0.5,
    busiest_core_share=1.0,
    sent_mib_per_s=50.0,
    received_mib_per_s=2.0,
    network="eth0",
    network_share=0.4,
    tcp_sent=100_000,
    tcp_sent_again=0,
)
HOST = HostReport(
    name="host-1",
    processes=1,
    done_in_window=5,
    cpu_cores=0.1,
    latency_histogram="",
    clock_ahead_ms=0.0,
    clock_bound_ms=0.2,
    clock_off_by_ms=0.3,
    started_late_ms=1.0,
)


def report(name: str, done: int, latency_s: float) -> HostReport:
    recorder = LatencyRecorder()
    recorder.record(np.full(100, latency_s))
    return HostReport(
        name=name,
        processes=2,
        done_in_window=done,
        cpu_cores=0.1,
        latency_histogram=encode(recorder.histogram()),
        clock_ahead_ms=0.0,
        clock_bound_ms=0.1,
        clock_off_by_ms=0.1,
        started_late_ms=1.0,
    )
