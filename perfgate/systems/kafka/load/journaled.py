"""A load whose every record is written down, and a fresh read of all that the brokers hold afterwards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perfgate.load.history import RECEIPT, Rows, read_journal, receipts_path
from perfgate.load.processes import Generators
from perfgate.model import Consumers, FaultScenario
from perfgate.model.load import LoadError, LoadSpec, Observer
from perfgate.systems.kafka.load.instructions import (
    CONSUME,
    DRAIN_MARGIN_S,
    MARGIN_S,
    PRODUCE,
    READY_TIMEOUT_S,
    consumers_of,
    drain_s_of,
    producers_of,
)

READ_BYTES_PER_S = 5e6
"""A fresh consumer that is slower than this does not reach the end of the log in time."""
LEAST_READ_S = 30.0
END_LEAD_S = 0.5
MOST_S = 3600.0
"""No round with a fault takes so much longer than the fault is held: what a load may last when nobody ends it."""


class JournaledGenerators:
    """See :class:`perfgate.model.load.JournaledLoad`."""

    def __init__(self, spec: LoadSpec, folder: Path, observer: Observer) -> None:
        """What happens to each record goes into files in `folder`; see :mod:`perfgate.load.history`."""
        self._spec, self._folder, self._observer = spec, folder, observer
        self._generators: Generators | None = None
        self.start = 0.0
        """When the first record was due, in s on the monotonic clock."""
        self.end = 0.0
        """When the last one was."""

    def __enter__(self) -> JournaledGenerators:
        self._folder.mkdir(parents=True, exist_ok=True)
        workers = {**consumers_of(self._spec), **producers_of(self._spec)}
        row = self._spec.scenario
        most_s = MOST_S + (row.fault.hold_s if isinstance(row, FaultScenario) else 0.0)
        self._generators = Generators(
            {name: {**worker, "history": str(self._folder), "most_s": most_s} for name, worker in workers.items()}
        )
        self._generators.follow(PRODUCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__()

    @property
    def _running(self) -> Generators:
        assert self._generators is not None
        return self._generators

    def begin(self) -> None:
        """Let all clients connect, then start the load and wait until its rate is steady."""
        self._running.wait_for("ready", READY_TIMEOUT_S, self._observer)
        self.start = time.monotonic() + self._running.lead_s
        self._running.tell(start=self.start)
        self._running.warm_up(self.start, self._spec.warmup_max_s, self._observer)

    def follow_until(self, moment: float, phase: str) -> None:
        """Let time pass until the monotonic clock shows `moment`."""
        self._running.listen_until(moment, phase, self._observer)

    def kill(self, name: str) -> None:
        """Kill one generator process."""
        self._running.kill(name)

    def rest_readers(self) -> None:
        """Have the first group's consumers ask for nothing more, and stay members of it."""
        self._running.tell_each(self._first_group, rest=True)

    def wake_readers(self) -> None:
        """Have them read on from where they were."""
        self._running.tell_each(self._first_group, rest=False)

    def slow_down(self, name: str, dwell_s: float) -> None:
        """Have a member of a share group take so long over what each poll gives it; 0: no longer."""
        self._running.tell_each([name], dwell_s=dwell_s)

    def unread(self) -> int:
        """Return how many acknowledged records the first group's consumers have not been given, by the last reports."""
        return self._running.done(PRODUCE) - self._running.done_by(self._first_group)

    @property
    def _first_group(self) -> frozenset[str]:
        consumers = self._spec.scenario.consumers
        return frozenset(f"{CONSUME}-{n + 1}" for n in range(consumers.processes)) if consumers else frozenset()

    def finish(self) -> list[str]:
        """Offer no more records, wait until each has its outcome, and return what was wrong with the load itself.

        Raises LoadError when that takes too long.
        """
        # Both edges lie ahead: the processes read their own counters at each.
        self.end = time.monotonic() + END_LEAD_S
        self._running.tell(window=[self.end - END_LEAD_S / 2, self.end])
        bound_s = drain_s_of(self._spec.scenario) + DRAIN_MARGIN_S
        sent = self._running.wait_for(
            "result", bound_s, self._observer, only=PRODUCE, phase="waiting for every outcome"
        )
        self._running.tell(CONSUME, stop=True)
        read = self._running.wait_for("result", DRAIN_MARGIN_S, self._observer, only=CONSUME, phase="ending consumers")
        found = []
        if blocked := sum(result["pushback_s"] for result in sent):
            found.append(
                f"the producers' buffers were full for {blocked:.1f} s, which hides what the outage cost: raise "
                "queue.buffering.max.kbytes and queue.buffering.max.messages to what is sent in twice the outage"
            )
        if unsent := sum(result["unsent"] for result in sent):
            found.append(f"{unsent:,} records of the schedule were never handed over")
        if corrupt := sum(result["corrupt"] + result["foreign"] for result in read):
            found.append(f"the consumers were given {corrupt:,} records whose content is not what was sent")
        return found


def read_everything(spec: LoadSpec, folder: Path, ends: Sequence[int], observer: Observer) -> Rows:
    """Return what a fresh consumer is given of every partition from its start to its end offset, in the log's order.

    Raises LoadError when it does not get there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    row = replace(spec.scenario, consumers=Consumers(membership="assigned"))
    (worker,) = consumers_of(replace(spec, scenario=row)).values()
    records, timeout_s = sum(ends), LEAST_READ_S + sum(ends) * row.record_bytes / READ_BYTES_PER_S
    with Generators({CONSUME: {**worker, "history": str(folder), "most_s": timeout_s + MARGIN_S}}) as generators:
        generators.follow(CONSUME)
        generators.wait_for("ready", READY_TIMEOUT_S, observer)
        generators.tell(start=time.monotonic())
        whole = generators.wait_for_read(records, timeout_s, observer)
    rows = read_journal(receipts_path(folder, 0), RECEIPT)
    reached = [int(rows["offset"][rows["partition"] == number].max(initial=-1)) + 1 for number in range(len(ends))]
    if not whole or any(here < end for here, end in zip(reached, ends, strict=True)):
        short = [(n, here, end) for n, (here, end) in enumerate(zip(reached, ends, strict=True)) if here < end]
        raise LoadError(
            f"the final read did not reach the end of the log within {timeout_s:.0f} s: "
            + ", ".join(f"partition {number} {here:,} of {end:,}" for number, here, end in short)
        )
    return rows
