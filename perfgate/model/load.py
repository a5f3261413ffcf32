"""The driver of a load: what it must offer, and the result of a round."""

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
    """The load could not be put on the target; the message holds the reason and makes the round INVALID."""


class SendsFailedError(LoadError):
    """The target took none of the `attempted` records, or did not commit them; `failed` have ended in an error so far.

    Or it gave consumers none, or no client what it needs. `code`: the name of the error with which that failed.
    `process`: the generator process that it failed, as "B-producer-1" where sides take turns; empty: all of them.
    """

    def __init__(self, reason: str, *, attempted: int, failed: int, code: str = "", process: str = "") -> None:
        super().__init__(reason)
        self.attempted, self.failed, self.code, self.process = attempted, failed, code, process


class LogUnreadError(LoadError):
    """A fresh consumer was not given all that the brokers hold; `rows` are what it was given."""

    def __init__(self, reason: str, rows: npt.NDArray[np.void]) -> None:
        super().__init__(reason)
        self.rows = rows


PREFIX = "kpg-"
"""What names of the suite's topics, groups and transactional ids begin with, or hold after a prefix that is stated."""
FAILED = "brokers failed"
"""The kind of a doubt that tells of something which brokers must not do: on those of the suite's own it is a result."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the generators have done so far, at `at` seconds on the monotonic clock; `by_process`: of `done`, by name.

    `done` counts records acknowledged or, where the load only reads, received and found in order.
    """

    at: float
    attempted: int
    done: int
    failed: int
    last_error: str = ""
    by_process: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadSpec:
    """One round of a scenario's load. `security` holds the client settings that the target itself asks for.

    `most_rate`: how many records/s the target allows, whatever the scenario offers or owes. `hosts`: of the load hosts
    of its link the first so many have a part; 0: all.
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
    """What names on the brokers begin with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """What the producers did. `acked_in_window` were acknowledged in the window, whenever they were sent.

    `latency` holds the records that were acknowledged (capped) or due (paced, also those whose acknowledgement came
    after it) in the window; `send_latency` the latter counted from the moment they were really
    sent, `schedule_delay` how late that was (paced only). All three are encoded histograms; `percentiles` (ms, by
    name) stand in for `latency` where a driver knows no more. `unsent` is what a paced load still owed when the
    wait ended, `withdrawn` what a capped load took back from its buffer after the window. `throttled_ms`: how long,
    at least, a quota held answers of the brokers back, over all requests. `stalled_in_window_s`: for how long of the
    window a client's own loop stood still. `due_in_window`: paced records with an outcome that were due in the window,
    `timed_out_in_window` of them timed out. `markers_by_partition`: control records that committed transactions wrote.
    `latency_by_partition`: how many of `latency` lie in each coarse bucket, one partition after another.
    While a transaction is committed nothing is handed over (`committing_in_window_s`, of a client): that counts as
    `pushback_s` (capped), and not as `schedule_delay` (paced).
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
    due_in_window: int = 0
    timed_out_in_window: int = 0
    throttled_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Received(Reading):
    """What the consumers did; `received` of the `read` records are this load's, each for the first time in its group.

    `foreign`: not of this run, or too short. `corrupt`: a body that is not what was sent (of a sample). `duplicated`,
    `reordered`: in the log. `redelivered`: a log position read again. `missed`: log positions that an assigned
    consumer was not given although it was given a later one, or the end. `latency`: from the time in the record
    (intended send, or acceptance) to its receipt; `negative_latencies` counts those below zero. `by_group`: of each
    group, `received` and `received_in_window`; empty: all are of one.
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
class LoadResult:
    """What came of a round. Times in s, CPU of all generator processes in the window.

    `busiest_thread_cores`: of the one generator thread that used most. `sent` or `received` is None when the load
    has no such side. `wake_delay_p99_ms`: how late this machine woke a sleeping thread in the window (paced loads;
    None: not measured). `hosts`: what each load host did, empty without --hosts; `one_clock`: each of them has read
    what it wrote, and nothing else. `window_late_s`: for so long the window was open when the last generator process
    heard of it. `growth`: the rate in the second half of the window over that in the first.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Observer:
    """Who is told what while a round runs, in the run's own thread.

    `edge` is called at the two edges of the window, with the moment at which it was to come (s on the monotonic clock):
    what is looked after meanwhile may delay the call. `check` is called again and again (it raises when the target is
    no longer healthy), `progress` with the phase in words and the last report; `written` returns the topic's end
    offsets added up. `sends` is given the last report before anything of it is shown, and raises when more sends have
    failed than the target allows. `settled` says whether the brokers have stopped compiling, as far as that can be
    told; a round's warm-up waits for it.
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
        """Return why this driver cannot express the scenario, or None when it can."""

    def latency_basis(self, load: Load) -> str:
        """Return from which moment this driver counts the latency of such a load."""

    def by_hand(self, scenario: Scenario) -> str:
        """Return the official command that makes the same load, or why there is none."""

    def rtt_ms(self, link: Link, bootstrap: str, security: Settings) -> float | None:
        """Return a request's round trip from where this driver's clients run on the link, in ms; None: from here."""

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        """Run one round. Raises LoadError when no valid load came about, and whatever `observer.check` raises."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How two loads take turns: gap and measured window of a turn in s, buffer of each producer in KiB."""

    gap_s: float
    window_s: float
    buffer_kib: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Late:
    """How many `turns` of one side, `of` those that the other side's measured turn follows, were late.

    Their records were still under way when that was measured.
    """

    turns: int
    of: int


class JournaledLoad(Protocol):
    """A load whose every record is written down, from its start until it is told to stop.

    Leaving the context ends every process. `start`, `end`: when the first and the last record were due (s on the
    monotonic clock). `hosts`: what each load host did in the load's last moment, once it is finished; empty without
    --hosts.
    """

    start: float
    end: float
    hosts: tuple[HostReport, ...]

    def __enter__(self) -> Self:
        """Start the processes."""

    def __exit__(self, *_: object) -> None:
        """End them."""

    def begin(self) -> None:
        """Let all clients connect, then start the load and wait until its rate is steady."""

    def follow_until(self, moment: float, phase: str) -> None:
        """Let time pass until the monotonic clock shows `moment`."""

    def kill(self, name: str) -> None:
        """Kill one generator process."""

    def rest_readers(self) -> None:
        """Have the first group's consumers ask for nothing more, and stay members of it."""

    def wake_readers(self) -> None:
        """Have them read on from where they were."""

    def slow_down(self, name: str, dwell_s: float) -> None:
        """Have a member of a share group take so long over what each poll gives it; 0: no longer."""

    def unread(self) -> int:
        """Return how many acknowledged records the first group's consumers have not been given, by the last reports."""

    def collect(self) -> None:
        """Have all that was written down so far here. Raises LoadError."""

    def finish(self) -> list[Doubt]:
        """Offer no more records, wait until each has its outcome, and return what was wrong with the load itself.

        Of the kind FAILED is what the brokers must not do.

        Raises LoadError when that takes too long, or when not all that was written down is here.
        """


class Engine(Driver, Protocol):
    """The suite's own driver, which does what official tools do not."""

    def take_turns(
        self, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
    ) -> tuple[dict[str, LoadResult], Mapping[str, Late]]:
        """Run two loads in turns; return each side's result and how many of its turns were late.

        `specs` by side, "A" and "B". The observer's `edge` is called as each measured turn opens and closes.
        """

    def fill(self, spec: LoadSpec, observer: Observer) -> None:
        """Write the scenario's backlog into its topic. Raises LoadError when not every record got there."""

    def journaled(self, spec: LoadSpec, folder: Path, observer: Observer) -> JournaledLoad:
        """Return a load that writes down in `folder` what happens to each record."""

    def read_everything(
        self, spec: LoadSpec, folder: Path, ends: Sequence[int], observer: Observer
    ) -> npt.NDArray[np.void]:
        """Return what a fresh consumer is given of every partition up to its end offset, in the log's order.

        Raises LogUnreadError when it does not get there.
        """
