"""The run's side of generator processes: starts, warms up, follows and ends them."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression

from perfgate.load.instructions import CONSUME, PRODUCE
from perfgate.load.transport import Channel, LocalTransport, Message, Transport
from perfgate.model.load import Lag, LoadError, Observer, Progress, SendsFailedError

STEADY_WINDOW_S = 0.5
STEADY_AFTER_S = 1.0
STEADY_WITHIN = 0.15
GROWTH = 1.10
ECONOMY_GROWTH = 1.05
"""Records per second of CPU creep up in smaller steps for longer than a rate does."""
FIRST_DONE_TIMEOUT_S = 10
CHECK_EVERY_S = 0.25
BEAT_S = 2.0
"""Interval at which every process is sent a sign that the run is still there."""
HELD_S = 30.0
"""A run that follows its processes and has not looked after them within this time stands still: a terminal is held,
say. A request to the brokers takes 20 s at most."""
LAG_EVERY_S = 0.5
"""Interval of the recorded lags: processes report every 0.1 s, each at its own time."""
Behind = tuple[float, float]
"""A time, in s on the monotonic clock, and the lag in records, on average over groups."""


def rate_between(earlier: Progress, later: Progress) -> float:
    """Records done per second between two reports; 0.0 when no time lies between them."""
    seconds = later.at - earlier.at
    return (later.done - earlier.done) / seconds if seconds > 0 else 0.0


def is_steady(history: Sequence[Progress], start: float) -> bool:
    """Whether the rates of the last two half seconds are within 15 %; not before STEADY_AFTER_S, or without any."""
    second = _last_second(history)
    if second is None or history[-1].at - start < STEADY_AFTER_S:
        return False
    first, middle, last = second
    recent, earlier = rate_between(middle, last), rate_between(first, middle)
    return earlier > 0 and abs(recent - earlier) <= STEADY_WITHIN * earlier


def is_even(history: Sequence[Progress]) -> bool:
    """Whether an open-loop load has caught up with its schedule, or waits as long as a second ago.

    Partitions that have just been created stall for a moment, a few at a time, and the others keep an even rate
    meanwhile. Their records are acknowledged at once when they are there: in the window, if that opens too early.
    """
    second = _last_second(history)
    if second is None:
        return False
    first, middle, last = second
    waits, waited = _waiting(last), _waiting(first)
    caught_up = waits <= STEADY_WITHIN * (last.attempted - middle.attempted)
    return caught_up or abs(waits - waited) <= STEADY_WITHIN * waited


def _last_second(history: Sequence[Progress]) -> tuple[Progress, Progress, Progress] | None:
    """The reports a second and half a second before the last, and the last; None where it is too early."""
    if not history:
        return None
    last = history[-1]
    middle = latest_before(history, last.at - STEADY_WINDOW_S)
    first = latest_before(history, last.at - 2 * STEADY_WINDOW_S)
    return (first, middle, last) if first and middle else None


def _waiting(progress: Progress) -> int:
    return progress.attempted - progress.done - progress.failed


def has_stopped_growing(rates: Sequence[float], growth: float = GROWTH) -> bool:
    """Whether neither of the last two rates is more than `growth` times the best before it.

    A slice without growth happens by chance in the middle of a JVM's warm-up (seen: 797, 800, then 4,900).
    """
    return len(rates) > 2 and all(rates[i] <= growth * max(rates[:i]) for i in (-2, -1))


def has_grown(before: Sequence[float], now: Sequence[float], growth: float = GROWTH) -> bool:
    """Whether the best rate of `now` is more than `growth` times the best of `before`."""
    return max(now) > growth * max(before)


def latest_before(history: Sequence[Progress], at: float) -> Progress | None:
    return next((progress for progress in reversed(history) if progress.at <= at), None)


def lag_of(reports: Sequence[Behind], opens: float, closes: float, drained_s: float | None) -> Lag:
    """The lag in a window, of the reports before and in it; `drained_s`: of :class:`Lag`."""
    inside = [(at - opens, behind) for at, behind in reports if opens <= at <= closes]
    kept: list[Behind] = []
    for at, behind in inside:
        if not kept or at - kept[-1][0] >= LAG_EVERY_S:
            kept.append((at, behind))
    return Lag(
        most=max((behind for _, behind in inside), default=0.0),
        growth_per_s=linear_regression(*zip(*kept, strict=True)).slope if len(kept) > 1 else 0.0,
        over_time=tuple(kept),
        drained_s=drained_s,
    )


def of_group(name: str, group: str) -> bool:
    """Whether a process is of a group: "noisy-producer-1" of "noisy" and of "noisy-producer"; empty: of all."""
    return not group or f"{name}-".startswith(f"{group}-")


class NotInTimeError(LoadError):
    """A generator process did not send a message in time."""


@dataclass
class _Process:
    """A generator process, and its messages other than progress, by event."""

    name: str
    channel: Channel
    messages: dict[str, Message] = field(default_factory=dict)
    killed: bool = False
    """Whether the run itself has killed it, as a fault."""


class Generators:
    """Generator processes, each of its spec; leaving the context ends all of them."""

    def __init__(
        self,
        specs: Mapping[str, Mapping[str, object]],
        transport: Transport | None = None,
        *,
        leading: str = "",
        reads: bool = False,
        due: bool = False,
        groups: int = 0,
        beat_s: float = BEAT_S,
        held_s: float = HELD_S,
    ) -> None:
        """`specs`: the instructions of each process, by its name in messages; `transport`: None for this host.

        The rate of the group `leading` is the load's. `reads`: it reads existing records; `due`: records have times of
        their own, and brokers keep up with them. `groups`: number of consumer groups whose lag is recorded at each
        report. `beat_s`: how often each process is sent a sign that the run is there; `held_s`: after so long without
        coming round to its processes the run is taken to stand still, and sends none.
        """
        transport = transport or LocalTransport()
        self._beat_s, self._held_s = beat_s, held_s
        self._heard: queue.Queue[tuple[str, Message | None]] = queue.Queue()
        self._last: dict[str, Progress] = {}
        self._history: list[Progress] = []
        self._leading, self._reads, self._due, self._groups = leading, reads, due, groups
        self._lag: list[Behind] = []
        self._ended = threading.Event()
        self._looked_at = math.inf
        """When the run, following its processes, last looked after them; infinity while it does something else."""
        channels = transport.start(specs, lambda name, message: self._heard.put((name, message)))
        self.lead_s = transport.lead_s  # of the processes that have just been started
        """Lead time by which a message about a moment reaches every process before it."""
        self._processes = [_Process(name, channel) for name, channel in channels.items()]
        threading.Thread(target=self._beat, daemon=True).start()

    def __enter__(self) -> Generators:
        return self

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_s):
            if time.monotonic() - self._looked_at < self._held_s:
                for process in self._processes:
                    process.channel.post({"beat": True})

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for process in self._processes:
            process.channel.kill()
        for process in self._processes:
            process.channel.end()

    def post(self, only: str = "", **message: object) -> None:
        """Send a message to every process of the group `only`: see :func:`of_group`."""
        for process in self._named(only):
            process.channel.post(message)

    def kill(self, name: str) -> None:
        """Kill the process of this name, whose end is then no failure of the load."""
        (process,) = (process for process in self._processes if process.name == name)
        process.killed = True
        process.channel.kill()

    def lag(self, opens: float, closes: float, drained_s: float | None) -> Lag:
        return lag_of(self._lag, opens, closes, drained_s)

    def warm_up(self, start: float, bound_s: float, observer: Observer) -> bool:
        """Wait until the rate is steady and the brokers have settled, or the bound has passed; return whether so.

        Raises LoadError when nothing has been done by the bound (FIRST_DONE_TIMEOUT_S at least), SendsFailedError where
        records were sent, or were there to be read.
        """
        for _ in self._listen("warming up", observer):
            last, elapsed = self.last, time.monotonic() - start
            if last is not None and last.done:
                steady = observer.settled() and is_steady(self._history, start)
                steady = steady and (not self._due or is_even(self._history))
                if steady or elapsed >= bound_s:
                    return steady
            if last is not None and last.failed and not last.done and elapsed >= min(bound_s, 2):
                cause = last.last_error or "foreign or damaged records"
                raise SendsFailedError(
                    f"every record failed: {last.failed} of {last.attempted} so far: {cause}",
                    attempted=last.attempted,
                    failed=last.failed,
                )
            if elapsed >= max(bound_s, FIRST_DONE_TIMEOUT_S):
                cause = f": {last.last_error}" if last and last.last_error else ""
                reason = f"no record was acknowledged or received within {elapsed:.0f} s of load{cause}"
                if last and (last.attempted or self._reads):
                    raise SendsFailedError(reason, attempted=last.attempted, failed=last.failed)
                raise LoadError(reason)
        raise AssertionError("unreachable")

    def messages(self, event: str) -> dict[str, Message]:
        """The message of this `event` of each process that has sent it, by its name."""
        return {process.name: process.messages[event] for process in self._processes if event in process.messages}

    @property
    def last(self) -> Progress | None:
        """The last reports of the leading processes, added up; None before each has reported."""
        return self._history[-1] if self._history else None

    def done(self, only: str) -> int:
        """Number of records that the processes of the group have reported as done."""
        return sum(last.done for name, last in self._last.items() if of_group(name, only))

    def growth(self, opens: float, closes: float) -> float:
        """The rate in the second half of a window over that in the first; 1.0 where either had none."""
        first, middle, last = (latest_before(self._history, at) for at in (opens, (opens + closes) / 2, closes))
        if first is None or middle is None or last is None:
            return 1.0
        before, after = rate_between(first, middle), rate_between(middle, last)
        return after / before if before > 0 and after > 0 else 1.0

    def listen_until(self, at: float, phase: str, observer: Observer) -> None:
        """Follow the processes until the monotonic clock shows `at`."""
        for _ in self._listen(phase, observer, until=at):
            pass

    def wait_for_done(self, only: str, records: int, timeout_s: float, observer: Observer) -> bool:
        """Follow the processes until those of the group `only` have done `records`; return whether so."""
        listening = self._listen("reading the rest", observer, until=time.monotonic() + timeout_s)
        return any(self.done(only) >= records for _ in listening)

    def wait_for_read(self, records: int, timeout_s: float, observer: Observer) -> bool:
        """Follow the processes until they have read `records`, of any kind; return whether so."""
        listening = self._listen("reading all that the brokers hold", observer, until=time.monotonic() + timeout_s)
        return any(sum(last.attempted for last in self._last.values()) >= records for _ in listening)

    def wait_for(
        self, event: str, timeout_s: float, observer: Observer, *, only: str = "", phase: str = "connecting"
    ) -> Sequence[Message]:
        """Return the message of this `event` of each process, sent before or now. Raises NotInTimeError."""
        processes = self._named(only)
        for _ in self._listen(phase, observer, until=time.monotonic() + timeout_s):
            if all(event in process.messages for process in processes):
                return [process.messages[event] for process in processes]
        missing = ", ".join(process.name for process in processes if event not in process.messages)
        raise NotInTimeError(f"the generator process {missing} gave no {event} within {timeout_s:.0f} s")

    def _named(self, only: str) -> list[_Process]:
        return [process for process in self._processes if of_group(process.name, only) and not process.killed]

    def _listen(self, phase: str, observer: Observer, *, until: float = math.inf) -> Iterator[None]:
        """Take in messages, yielding after each of them or a pause; checks the target in between."""
        checked = 0.0
        try:
            while (now := time.monotonic()) < until:
                self._looked_at = now
                if now - checked >= CHECK_EVERY_S:
                    checked = now
                    observer.check()
                    if self.last:
                        observer.sends(self.last)
                    observer.progress(phase, self.last)
                self._take_in(min(until - now, CHECK_EVERY_S), observer)
                yield
        finally:
            self._looked_at = math.inf

    def _take_in(self, timeout_s: float, observer: Observer) -> None:
        try:
            name, message = self._heard.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return
        process = next(process for process in self._processes if process.name == name)
        if message is None:
            if "result" in process.messages or process.killed:
                return
            observer.check()  # a generator that ended with its brokers ended because of that
            raise LoadError(process.channel.obituary())
        if message["event"] == "failure":
            observer.check()
            raise self._failure(process.name, message)
        if message["event"] == "progress":
            self._last[process.name] = Progress(**{key: message[key] for key in Progress.__slots__ if key in message})
            self._add_up()
            if self._groups:
                behind = self.done(PRODUCE) - self.done(CONSUME) / self._groups
                self._lag.append((message["at"], max(0.0, behind)))
        else:
            process.messages[message["event"]] = message

    def _failure(self, name: str, message: Message) -> LoadError:
        reason, last = f"the generator process {name} failed: {message['reason']}", self._last.get(name)
        if not message.get("code"):
            return LoadError(reason)
        attempted, failed = (last.attempted, last.failed) if last else (0, 0)  # some end before they have begun
        return SendsFailedError(reason, attempted=attempted, failed=failed, code=message["code"], process=name)

    def _add_up(self) -> None:
        """Add up the latest reports of the leading processes, once each has reported.

        What a process did that was killed since stays done.
        """
        leading = [process for process in self._processes if of_group(process.name, self._leading)]
        known = [self._last[process.name] for process in leading if process.name in self._last]
        others = [name for name in self._last if f"-{PRODUCE}-" in name and not of_group(name, self._leading)]
        beside = [self._last[name] for name in others]
        if known and all(process.killed or process.name in self._last for process in leading):
            self._history.append(
                Progress(
                    at=max(last.at for last in known),
                    attempted=sum(last.attempted for last in known),
                    done=sum(last.done for last in known),
                    failed=sum(last.failed for last in known),
                    last_error=next((last.last_error for last in (*known, *beside) if last.last_error), ""),
                    by_process={name: last.done for name, last in self._last.items()},
                    attempted_beside=sum(last.attempted for last in beside),
                    failed_beside=sum(last.failed for last in beside),
                )
            )
