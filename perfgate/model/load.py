"""Drivers of a load: what a driver must offer, and the result of a round."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from perfgate.model.declared import Link, Scenario, Settings
from perfgate.model.flaw import Doubt
from perfgate.model.loads import Load
from perfgate.model.measured import HostReport, Reading

if TYPE_CHECKING:  # numpy takes 0.1 s, which a run that measures nothing does not need
    import numpy as np
    import numpy.typing as npt


class LoadError(Exception):
    """The load could not be made; the message is the reason and makes the round INVALID."""


class SendsFailedError(LoadError):
    """The target took or committed none of the `attempted` records, gave consumers none, or refused clients.

    `failed` have ended in an error so far. `code`: the name of the error. `process`: the generator process concerned,
    as "B-producer-1" where sides take turns; empty: all of them.
    """

    def __init__(self, reason: str, *, attempted: int, failed: int, code: str = "", process: str = "") -> None:
        super().__init__(reason)
        self.attempted, self.failed, self.code, self.process = attempted, failed, code, process


class LogUnreadError(LoadError):
    """A fresh consumer did not get all that the brokers hold; `rows`: what it got."""

    def __init__(self, reason: str, rows: npt.NDArray[np.void]) -> None:
        super().__init__(reason)
        self.rows = rows


PREFIX = "kpg-"
"""Begins the names of topics, groups and transactional ids, after a stated prefix if there is any."""
FAILED = "brokers failed"
"""The kind of a doubt about something that brokers must not do: on the suite's own brokers it is a result."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the generators have done until `at` (s on the monotonic clock); `by_process`: `done` of each, by name.

    `done`: records acknowledged or, where the load only reads, received in order. `*_beside`: of all loads beside.
    """

    at: float
    attempted: int
    done: int
    failed: int
    last_error: str = ""
    by_process: Mapping[str, int] = field(default_factory=dict)
    attempted_beside: int = 0
    failed_beside: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadSpec:
    """One round of a scenario's load. `security`: the client settings that the target asks for.

    `most_rate`: records/s that the target allows. `hosts`: how many load hosts of its link take part, the first ones;
    0: all. `client_id`: by which a quota knows its clients; empty: the client's own. `beside`: loads in that window.
    """

    scenario: Scenario
    bootstrap: str
    security: Settings
    topic: str
    run_id: str
    seed: int
    window_s: float
    warmup_max_s: float
    most_rate: float = math.inf
    hosts: int = 0
    prefix: str = PREFIX
    client_id: str = ""
    beside: tuple[LoadSpec, ...] = ()


TICK_S = 0.1
"""How often what is owed of a shaped load is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverTime:
    """What became of the records that were due in a shaped load's window, by the time since it opened.

    `sent`, `acked`: in each TICK_S, what came after the window in the last. `latency`: their coarse buckets, by the
    second in which they were due. `phases`: encoded histograms.
    """

    sent: Sequence[int]
    acked: Sequence[int]
    latency: Sequence[int]
    phases: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """What the producers did. `acked_in_window` were acknowledged in the window, whenever they were sent.

    `latency`: of the records that were acknowledged (capped) or due (paced) in the window; `send_latency`: of the
    latter from the actual send, `schedule_delay`: how late that was: encoded histograms. `percentiles` (ms, by name)
    replace `latency` where a driver knows no more. `unsent`: what a paced load still owed when the wait ended;
    `withdrawn`: what a capped load took back from its buffer after the window. `throttled_ms`: how long at least a
    quota held answers back. `stalled_in_window_s`: how long a client's loop stood still. `due_in_window`: paced records
    with an outcome, `timed_out_in_window` of them timed out. `markers_by_partition`: control records of transactions.
    `latency_by_partition`: `latency` in coarse buckets; `latency_by_topic`: of topics with too many partitions. A
    commit (`committing_in_window_s`, of a client) is part of `pushback_s` (capped), not of `schedule_delay` (paced).
    """

    attempted_in_window: int
    acked_in_window: int
    acked_bytes_in_window: int
    pushback_s: float
    pushback_in_window_s: float
    stalled_in_window_s: float = 0.0
    committing_in_window_s: float = 0.0
    attempted: int
    acked: int
    failed: Mapping[str, int]
    errors: Mapping[str, str]
    unresolved: int
    unsent: int
    withdrawn: int = 0
    latency: str = ""
    send_latency: str = ""
    schedule_delay: str = ""
    percentiles: Mapping[str, float] = field(default_factory=dict)
    acked_by_partition: Sequence[int] = ()
    markers_by_partition: Sequence[int] = ()
    latency_by_partition: Sequence[int] = ()
    latency_by_topic: Sequence[int] = ()
    due_in_window: int = 0
    timed_out_in_window: int = 0
    throttled_ms: int = 0
    over_time: OverTime | None = None
    crowd: Reached | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """Connections of a crowd, how many got an answer, and when the last did (s since the first record; 0: not all)."""

    asked: int
    reached: int
    settled_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Received(Reading):
    """What the consumers did; `received` of the `read` records are this load's, each for the first time in its group.

    `foreign`: not of this run, or too short. `corrupt`: another body than was sent (of a sample). `duplicated`,
    `reordered`: in the log. `redelivered`: a log position read again. `missed`: positions skipped by an assigned
    consumer. `latency`: from the time in the record (intended send, or acceptance) to its receipt. `by_group`:
    `received` and `received_in_window` of each; empty: one group.
    """

    received_in_window: int
    received_bytes_in_window: int
    errors: Mapping[str, str]
    failed: Mapping[str, int]
    fetch_ms: float | None
    latency: str = ""
    throttled_ms: int = 0
    by_group: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """How far consumers that work were behind: records acknowledged and not worked off, a group's on average.

    `over_time`: pairs of s since the window opened and records. `drained_s`: how long after the last acknowledgement
    all was worked off; None: it was not when the wait ended, or they fall behind by declaration.
    """

    most: float
    growth_per_s: float
    over_time: tuple[tuple[float, float], ...]
    drained_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadResult:
    """The result of a round. Times in s, CPU of all generator processes in the window.

    `sent`, `received`: None when the load has no such side. `wake_delay_p99_ms`: how late this machine woke a sleeping
    thread (open loop; None: not measured). `hosts`: empty without --hosts; `one_clock`: each read what it wrote, and
    nothing else. `beside`: of each load at the same time. `window_late_s`: how long after the window's start the last
    process knew of it. `growth`: the rate in the window's second half over the first. `lag`: of consumers that work.
    """

    warmup_s: float
    steady: bool
    window_s: float
    cpu_cores: float
    busiest_thread_cores: float
    rss_mib: float
    sent: Sent | None
    received: Received | None
    wake_delay_p99_ms: float | None = None
    hosts: tuple[HostReport, ...] = ()
    one_clock: bool = False
    window_late_s: float = 0.0
    growth: float = 1.0
    beside: tuple[LoadResult, ...] = ()
    lag: Lag | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observer:
    """Calls that a driver makes while a round runs, in the run's own thread.

    `edge`: at both edges of the window, with the moment (s on the monotonic clock) at which it was due. `check`, again
    and again, raises when the target is no longer healthy. `progress`: the phase in words, and the last report.
    `written`: the sum of the topic's end offsets. `sends` raises when more sends failed than the target allows.
    `settled`: whether the brokers have stopped compiling, as far as is known; a round's warm-up waits for it.
    """

    edge: Callable[[float], None]
    check: Callable[[], None]
    progress: Callable[[str, Progress | None], None]
    written: Callable[[], int]
    settled: Callable[[], bool] = lambda: True
    sends: Callable[[Progress], None] = lambda last: None


class Driver(Protocol):
    """Makes load."""

    name: str
    takes_turns: bool
    """Whether two loads can alternate within a burst; whole rounds alternate otherwise."""

    def cannot(self, scenario: Scenario) -> str | None:
        """Return the reason why this driver cannot express the scenario; None where it can."""

    def latency_basis(self, load: Load) -> str:
        """Return the moment from which this driver counts latency."""

    def by_hand(self, scenario: Scenario) -> str:
        """Return the official command that makes the same load, or why there is none."""

    def rtt_ms(self, link: Link, bootstrap: str, security: Settings) -> float | None:
        """Return a request's round trip (ms) from where this driver's clients run; None: they run here."""

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        """Run a round. Raises LoadError where there was no valid load, and what `observer.check` raises."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How two loads take turns: gap and measured window of a turn in s, buffer of each producer in KiB."""

    gap_s: float
    window_s: float
    buffer_kib: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Batching:
    """Batches and buffer of a producer; `in_flight`: batches of a partition that may be under way at a time."""

    batch_bytes: int
    in_flight: int
    linger_s: float
    buffer_kib: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Late:
    """`turns` of one side, `of` those before a measured turn of the other, in which their records were under way."""

    turns: int
    of: int


class JournaledLoad(Protocol):
    """A load that records what becomes of every record; its context starts and ends the processes.

    `start`, `end`: when the first and the last record were due (s on the monotonic clock). `hosts`: see LoadResult.
    """

    start: float
    end: float
    hosts: tuple[HostReport, ...]

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def begin(self) -> None:
        """Let all clients connect, then start the load and wait until its rate is steady."""

    def follow_until(self, moment: float, phase: str) -> None:
        """Let time pass until the monotonic clock shows `moment`."""

    def kill(self, name: str) -> None: ...

    def leave(self, name: str) -> None:
        """Have a consumer process close, and end."""

    def join(self, name: str) -> None:
        """Have a consumer process that has waited join its group."""

    def received(self, name: str) -> int:
        """Return the number of records that a consumer process has been given, by its last report."""

    def rest_readers(self) -> None:
        """Pause the first group's consumers, which stay members of it."""

    def wake_readers(self) -> None:
        """Resume them where they were."""

    def slow_down(self, name: str, dwell_s: float) -> None:
        """Have a member of a share group hold the records of each poll for `dwell_s`; 0: no longer."""

    def unread(self) -> int:
        """Return the acknowledged records that the first group has not received, by the last reports."""

    def collect(self) -> None:
        """Fetch all that was recorded so far. Raises LoadError."""

    def finish(self) -> list[Doubt]:
        """Send no more, wait until each record has its outcome, and return doubts: FAILED is of the brokers.

        Raises LoadError when that takes too long, or when a recording is incomplete.
        """


class Engine(Driver, Protocol):
    """The suite's own driver, which does more than official tools."""

    @property
    def buffer_settings(self) -> tuple[str, ...]:
        """The settings that bound a producer's buffer; loads that take turns have a buffer of their own size."""

    def batching(self, scenario: Scenario) -> Batching:
        """Return the batching of the scenario's producers."""

    def take_turns(
        self, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
    ) -> tuple[dict[str, LoadResult], Mapping[str, Late]]:
        """Run two loads, of sides "A" and "B", in turns; return each side's result and its late turns.

        The observer's `edge` is called as each measured turn opens and closes.
        """

    def fill(self, spec: LoadSpec, observer: Observer) -> None:
        """Write the scenario's backlog into its topic. Raises LoadError when a record is missing."""

    def journaled(self, spec: LoadSpec, folder: Path, observer: Observer) -> JournaledLoad:
        """Return a load that records in `folder` what happens to each record."""

    def read_everything(
        self, spec: LoadSpec, folder: Path, ends: Sequence[int], observer: Observer
    ) -> npt.NDArray[np.void]:
        """Return all records of every partition up to its end offset, in the log's order. Raises LogUnreadError."""
