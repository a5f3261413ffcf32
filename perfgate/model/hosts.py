"""Reports of load hosts: what each did in a round."""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.model.metrics import Count


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineUse:
    """What a load host's machine did in a round's window, whichever process it did it for.

    `with_run`: it is the machine of the run. Shares are of 1: of all processors, of the busiest one; what a hypervisor
    took counts as used. `network`: the interface that came nearest to the speed it states, in its busier direction;
    empty, and `network_share` None, where none states one. `tcp_sent`: segments; `tcp_sent_again` come on top.
    `throttled_share`: of the periods of its container's CPU quota those in which it held the container back; None
    where no quota is seen.
    """

    with_run: bool
    cores: Count
    cpu_share: float
    busiest_core_share: float
    sent_mib_per_s: float
    received_mib_per_s: float
    network: str
    network_share: float | None
    tcp_sent: Count
    tcp_sent_again: Count
    throttled_share: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeService:
    """What chrony says of a load host's wall clock; nothing of this engine's times is taken from that one.

    `offset_ms`: so far it is from what chrony takes for the true time. `bound_ms`: it is no further from the time of
    chrony's sources than this: |offset| + root dispersion + root delay / 2; None where it follows none.
    """

    stratum: Count
    synchronised: bool
    offset_ms: float
    root_delay_ms: float
    root_dispersion_ms: float
    bound_ms: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostReport:
    """What one load host did in one round's window, and its clock against that of the machine the run is on.

    `done_in_window`: records acknowledged, or received where nothing is sent, by `done_by` of its `processes` (None:
    not told, as in runs of earlier versions); `latency_histogram` of its producers.
    `clock_ahead_ms` at the start, give or take `clock_bound_ms`; times that were translated by it were wrong by
    `clock_off_by_ms` at most, the round over. `started_late_ms`: how long after the agreed moment the last of its
    clients began. `busiest_thread_cores` of its generators; `pushback_share` of the window, of its average producer;
    `schedule_delay_p99_ms` of its paced records. `machine`: None where its counters were not read.
    `clock_stepped_ms`: its clock moved by so much at once. `time_service`: None where no chrony answered.
    """

    name: str
    processes: Count
    done_in_window: Count
    cpu_cores: float
    latency_histogram: str
    clock_ahead_ms: float
    clock_bound_ms: float
    clock_off_by_ms: float
    started_late_ms: float
    busiest_thread_cores: float = 0.0
    pushback_share: float = 0.0
    schedule_delay_p99_ms: float | None = None
    machine: MachineUse | None = None
    clock_stepped_ms: float = 0.0
    time_service: TimeService | None = None
    done_by: Count | None = None
