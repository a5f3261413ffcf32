"""A generator process: runs the clients of a spec, a thread each. ``-m perfgate.load.worker``.

Exchanges JSON lines with the run: first the spec comes in, then `start`, `window` and (consumers) `join`, `rest`,
`dwell_s`, `hurry` and `stop`; `ready`, `progress` and `result` go out. The process ends when its standard input closes,
as the run is gone then; when the run is silent for SILENT_S; and when the spec's `most_s` are over.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from perfgate.host.machine_use import Usage
from perfgate.load.checks import Distinct
from perfgate.load.clients import ClientModule, LoadClientError, UnansweredError
from perfgate.load.consuming import Reader, Work
from perfgate.load.producing import Sender
from perfgate.load.schedule import Window, now
from perfgate.load.transport import summed
from perfgate.model.errors import TargetError
from perfgate.model.histogram import LatencyRecorder, Whole, encode, of_counts

PROGRESS_EVERY_S = 0.1
LINGER_S = 1.0
"""Time that clients stay connected after the result, unless the run ends the process: their connections' counters are
read at the window's end, when a load that nothing waits for has been done for milliseconds."""
SWITCH_INTERVAL_S = 0.0005
RUN_IS_GONE, RUN_IS_SILENT = 70, 71
SILENT_S = 10
"""The run writes at least every BEAT_S, from a thread of its own; a run that was stopped (Ctrl-Z) does not."""


def emit(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class LoadClient(Protocol):
    """A producer or a consumer in a thread of its own.

    It works from `start` on until there is nothing left to do. `stop`, after which `run` returns soon, and `progress`,
    the counts so far, are called from another thread. `errors`: the first words of each kind; `recorders`: latencies.
    """

    @property
    def errors(self) -> Mapping[str, str]: ...
    def connect(self) -> None: ...
    def run(self, start: float) -> None: ...
    def stop(self) -> None: ...
    def progress(self) -> Mapping[str, int]: ...
    def result(self) -> Mapping[str, Any]: ...
    def recorders(self) -> Mapping[str, LatencyRecorder]: ...


class Control:
    """Messages of the run so far, read by a thread."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] = json.loads(sys.stdin.readline())
        self.window = Window()
        self.rest, self.stop, self.join = threading.Event(), threading.Event(), threading.Event()
        self.hurry = threading.Event()
        """Set when consumers should stop working on records."""
        self.dwell_s = 0.0
        """Time that a consumer takes over the records of a batch, in s."""
        self._start = 0.0
        self._started = threading.Event()
        self._heard, self._ends_at = 0, now() + self.spec["most_s"]
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def wait_for_start(self) -> float:
        """Wait for the run to set the start of the load, and return it."""
        self._started.wait()
        return self._start

    def _listen(self) -> None:
        for line in sys.stdin:
            self._heard += 1
            try:
                message = json.loads(line)
            except ValueError:  # cut off: the run ended while it wrote
                break
            if "start" in message:
                self._start = message["start"]
                self._started.set()
            if "window" in message:
                self.window.set(*message["window"])
            if "rest" in message:
                (self.rest.set if message["rest"] else self.rest.clear)()
            self.dwell_s = message.get("dwell_s", self.dwell_s)
            for name, event in {"join": self.join, "hurry": self.hurry, "stop": self.stop}.items():
                if name in message:
                    event.set()
        os._exit(RUN_IS_GONE)

    def _watch(self) -> None:
        silent_s = 0  # not by the clock: a process that was itself stopped has read nothing either
        while True:
            heard = self._heard
            time.sleep(1)
            silent_s = silent_s + 1 if self._heard == heard else 0
            if silent_s >= SILENT_S:
                self._end(f"the run said nothing for {SILENT_S} s: nobody watches what this load does")
            if now() > self._ends_at:
                self._end(f"the load went on for {self.spec['most_s']:.0f} s, longer than it ever should")

    @staticmethod
    def _end(reason: str) -> None:
        try:
            sys.stderr.write(reason + "\n")  # a file: the pipe to a run that does not read would block
            sys.stderr.flush()
        finally:
            os._exit(RUN_IS_SILENT)  # of a full disk too


class Edges:
    """Reads this process's counters at the window's edges."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.usage = Usage([os.getpid()])

    def look(self) -> None:
        """Read the counters when an edge has come; called again and again."""
        if not self.next_in():
            self.usage.look()

    def next_in(self) -> float:
        due = (self._window.opens, self._window.closes, math.inf)
        return max(0.0, due[self.usage.looks] - now())


def merged_histograms(clients: Sequence[LoadClient]) -> dict[str, str]:
    """The clients' latencies added up, by name, as HdrHistogram's text."""
    totals: dict[str, Whole] = {}
    for client in clients:
        for name, recorder in client.recorders().items():
            totals[name] = totals.get(name, 0) + recorder.counts()
    return {name: encode(of_counts(counts)) for name, counts in totals.items()}


def run(control: Control, clients: Sequence[LoadClient]) -> None:
    """Run every client in a thread until it is done, reporting progress in between; then give the result."""
    start = control.wait_for_start()
    failures: list[str] = []
    codes: list[str] = []
    began: list[float] = []
    done, counted = threading.Semaphore(0), threading.Event()

    def guarded(client: LoadClient) -> None:
        try:
            time.sleep(max(0.0, start - now()))
            began.append(now())
            client.run(start)
        except Exception as error:  # reported to the run, which makes the round invalid
            failures.append(f"{error.__class__.__name__}: {error}")
            codes.append(_code_of(error))
        done.release()
        counted.wait()  # a thread that has ended takes its CPU time with it

    for client in clients:
        threading.Thread(target=guarded, args=(client,), daemon=True).start()
    edges = Edges(control.window)
    working = len(clients)
    while working:
        edges.look()
        _report(clients)
        if control.stop.is_set():
            for client in clients:
                client.stop()
        working -= done.acquire(timeout=min(PROGRESS_EVERY_S, edges.next_in() + 0.001))
        if len(began) == len(clients):
            emit("started", at=max(began))
            began.clear()
    edges.look()
    counted.set()
    if failures:
        _report(clients)
        emit("failure", reason="; ".join(failures), code=min(codes))  # empty unless all are the brokers'
        return
    emit(
        "result",
        **summed([client.result() for client in clients]),
        **merged_histograms(clients),
        **(edges.usage.span() if control.window.closes < math.inf else {}),  # a backlog is written without a window
        clients=len(clients),
        window_late_s=control.window.late_s,
    )


def _code_of(error: Exception) -> str:
    """The client's name of the brokers' error, or of a missing answer; empty for errors of the load itself."""
    return error.code if isinstance(error, UnansweredError) else ""


def _report(clients: Sequence[LoadClient]) -> None:
    counts = Counter[str]()
    for client in clients:
        counts.update(client.progress())
    words = next((text for client in clients for text in client.errors.values()), "")
    emit("progress", at=now(), last_error=words, **counts)


def _clients(control: Control, module: ClientModule) -> list[LoadClient]:
    """The clients of the spec. Raises LoadClientError, ValueError."""
    spec, window = control.spec, control.window
    numbers = range(spec["first"], spec["first"] + spec["clients"])
    if spec["role"] == "produce":
        return [Sender(spec, number, window, module.sending(spec, number)) for number in numbers]
    given = Distinct(spec["producers"]) if spec["share"] else None
    return [
        Reader(
            spec,
            number,
            window,
            module.reading(spec, number, lambda: window.holds(now())),
            control.rest,
            given=given,
            joins=control.join if spec.get("joins_later") else None,
            work=Work(spec["work"], number) if spec.get("work") else None,
            hurry=control.hurry,
            dwell_s=lambda: control.dwell_s,
        )
        for number in numbers
    ]


def main() -> None:
    gc.disable()  # the loops make no reference cycles, and a collection is a pause in the schedule
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    control = Control()
    spec = control.spec
    if spec["client_path"]:
        sys.path.insert(0, spec["client_path"])
    module = cast(ClientModule, importlib.import_module(f"perfgate.systems.{spec['system']}.load.clients"))
    try:
        if spec["role"] == "round-trip":
            emit("result", rtt_ms=module.round_trip_ms(spec))
            return
        clients = _clients(control, module)
        for client in clients:
            client.connect()
    except (LoadClientError, TargetError, ValueError) as error:
        emit("failure", reason=str(error), code=_code_of(error))
        return
    emit("ready")
    run(control, clients)
    time.sleep(LINGER_S)


if __name__ == "__main__":
    main()
