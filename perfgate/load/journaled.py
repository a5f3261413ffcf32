"""A load that journals every record, and a fresh read of all records that the brokers hold afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfgate.load.history import (
    ACCEPT,
    OUTCOME,
    RECEIPT,
    SEND,
    Rows,
    accepts_path,
    outcomes_path,
    read_journal,
    receipts_path,
    sends_path,
)
from perfgate.load.host_reports import host_reports
from perfgate.load.instructions import (
    CONSUME,
    DRAIN_MARGIN_S,
    MARGIN_S,
    PRODUCE,
    READY_TIMEOUT_S,
    Instructions,
    Requests,
)
from perfgate.load.processes import Generators
from perfgate.load.transport import Message, Transport
from perfgate.model import Consumers, HostReport, Scenario
from perfgate.model.faults import LATE, but_outages
from perfgate.model.flaw import Doubt
from perfgate.model.load import FAILED, LoadError, LoadSpec, LogUnreadError, Observer

READ_BYTES_PER_S = 5e6
"""A new consumer that is slower than this does not reach the end of the log in time."""
LEAST_READ_S = 30.0
END_LEAD_S = 0.5
END_LEADS = 4
"""Times the transport's lead. It costs only that time: on two cores with 39 threads ready to run a host learned of an
end 0.75 s ahead when 134 records had been sent after it."""
MOST_S = 3600.0
"""Bound on a load that nobody ends: a round with a fault lasts less than this longer than the fault is held."""


class JournaledGenerators:
    """See :class:`perfgate.model.load.JournaledLoad`."""

    def __init__(
        self, instructions: Instructions, spec: LoadSpec, folder: Path, observer: Observer, transport: Transport
    ) -> None:
        """Journals (:mod:`perfgate.load.history`) go into `folder`; the processes run where `transport` starts them."""
        self._system = instructions
        self._spec, self._folder, self._observer = spec, folder, observer
        self._transport = transport
        self._workers: Requests
        self._running: Generators
        self.start = 0.0
        """Time at which the first record was due, in s on the monotonic clock."""
        self.end = 0.0
        """Time at which the last record was due."""
        self.hosts: tuple[HostReport, ...] = ()
        """Report of each load host, once the load is finished."""

    def __enter__(self) -> JournaledGenerators:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._workers = {**self._consumers(), **self._system.producers_of(self._spec)}
        own = {"history": str(self._folder), "most_s": MOST_S + self._spec.scenario.held_s}
        specs = {name: {**worker, **own} for name, worker in self._workers.items()}
        self._running = Generators(specs, self._transport, leading=PRODUCE)
        return self

    def _consumers(self) -> Requests:
        """Instructions of the consumers, and of those that wait until they are to join."""
        scenario, consumers = self._spec.scenario, self._spec.scenario.consumers
        places = scenario.joining
        if not places or consumers is None:
            return self._system.consumers_of(self._spec)
        first = consumers.processes
        more = replace(scenario, consumers=replace(consumers, processes=first + len(places)))
        workers = self._system.consumers_of(replace(self._spec, scenario=more))
        for number, place in enumerate(places, first):
            workers[f"{CONSUME}-{number + 1}"] |= {"joins_later": True, "place": place * consumers.threads}
        return workers

    def __exit__(self, *_: object) -> None:
        self._running.__exit__()

    def begin(self) -> None:
        self._running.wait_for("ready", READY_TIMEOUT_S, self._observer)
        self.start = time.monotonic() + self._running.lead_s
        self._running.post(start=self.start)
        self._running.warm_up(self.start, self._spec.warmup_max_s, self._observer)

    def follow_until(self, moment: float, phase: str) -> None:
        self._running.listen_until(moment, phase, self._observer)

    def kill(self, name: str) -> None:
        self._running.kill(name)

    def leave(self, name: str) -> None:
        self._running.post(name, stop=True)

    def join(self, name: str) -> None:
        self._running.post(name, join=True)

    def received(self, name: str) -> int:
        return self._running.done(name)

    def rest_readers(self) -> None:
        for name in self._first_group:
            self._running.post(name, rest=True)

    def wake_readers(self) -> None:
        for name in self._first_group:
            self._running.post(name, rest=False)

    def slow_down(self, name: str, dwell_s: float) -> None:
        self._running.post(name, dwell_s=dwell_s)

    def unread(self) -> int:
        return self._running.done(PRODUCE) - sum(map(self._running.done, self._first_group))

    @property
    def _first_group(self) -> list[str]:
        consumers = self._spec.scenario.consumers
        return [f"{CONSUME}-{n + 1}" for n in range(consumers.processes)] if consumers else []

    def collect(self) -> None:
        self._transport.collect(self._folder)

    def finish(self) -> list[Doubt]:
        """See the protocol."""
        # Both edges are ahead of every process, also on a busy host: processes read their own counters at each.
        ahead_s = max(END_LEAD_S / 2, END_LEADS * self._running.lead_s)
        opens = time.monotonic() + ahead_s
        self.end = opens + END_LEAD_S / 2
        self._running.post(window=[opens, self.end])
        bound_s = self._system.drain_s_of(self._spec.scenario) + DRAIN_MARGIN_S
        sent = self._running.wait_for(
            "result", bound_s, self._observer, only=PRODUCE, phase="waiting for every outcome"
        )
        self._running.post(CONSUME, stop=True)
        read = self._running.wait_for("result", DRAIN_MARGIN_S, self._observer, only=CONSUME, phase="ending consumers")
        self._collect_all()
        return load_flaws(self._system, self._spec.scenario, sent, read)

    def _collect_all(self) -> None:
        """Collect all journals, and check that each is whole. Raises LoadError."""
        self.collect()
        began = {name: message["at"] - self.start for name, message in self._running.messages("started").items()}
        clocks, results = self._transport.clocks(self.start), self._running.messages("result")
        # A process that was killed has no result to compare with.
        for name, result in results.items():
            if reason := not_whole(self._folder, self._workers[name], result):
                at = f" on the load host {clocks[name].host}" if name in clocks else ""
                raise LoadError(f"the journal of {name}{at} is not whole: {reason}")
        self.hosts = host_reports(clocks, began, results, {}, window_s=END_LEAD_S / 2)


def load_flaws(
    instructions: Instructions, scenario: Scenario, sent: Sequence[Message], read: Sequence[Message]
) -> list[Doubt]:
    """Flaws of the load, by the results of producers and consumers.

    Outages are not flawed by a full buffer, which a dead partition fills, nor by records missing after the load.
    """
    flaws: list[Doubt] = []
    if blocked := sum(result["pushback_s"] for result in sent):
        text = (
            f"the producers' buffers were full for {blocked:.1f} s, which hides what the outage cost: raise "
            f"{' and '.join(instructions.buffer_settings)} to what is sent in twice the outage"
        )
        flaws += but_outages("full buffer", "brokers", text)
    if unsent := sum(max(0, result["unsent"]) for result in sent):
        text = f"{unsent:,} records of the schedule were never handed over"
        due_s = max(result["unsent"] for result in sent) * len(sent) / scenario.load.rate
        flaws += but_outages(LATE, "brokers" if blocked else "load", text, 0.0 if blocked else due_s)
    if beyond := sum(max(0, -result["unsent"]) for result in sent):
        text = f"{beyond:,} records were sent after the load's end, of which a generator process heard too late"
        flaws.append(Doubt(kind=LATE, whose="load", text=text))
    if corrupt := sum(result["corrupt"] for result in read):
        text = f"the consumers were given {corrupt:,} records whose content is not what was sent"
        flaws.append(Doubt(kind=FAILED, whose="brokers", text=text))
    if foreign := sum(result["foreign"] for result in read):
        text = f"the consumers were given {foreign:,} records that are not of this run"
        flaws.append(Doubt(kind="foreign", whose="unknown", text=text))
    if missed := sum(result["missed"] for result in read):
        text = f"the consumers were given {missed:,} records less than the log holds"
        kept = instructions.keeps_what_was_read(scenario)
        flaws.append(Doubt(kind=FAILED if kept else "missed", whose="brokers", text=text))
    return flaws


def not_whole(folder: Path, worker: Mapping[str, Any], result: Message) -> str:
    """The records that a process's journals lack, by its counts; empty: none."""
    numbers = range(worker["first"], worker["first"] + worker["clients"])
    if worker["role"] == "produce":
        sends = sum(int(read_journal(sends_path(folder, n), SEND)["count"].sum()) for n in numbers)
        acked = sum(int((read_journal(outcomes_path(folder, n), OUTCOME)["error"] == 0).sum()) for n in numbers)
        if acked != result["acked"]:
            return f"{acked:,} of {result['acked']:,} acknowledgements are there"
        # Records for which the buffer had no room were offered, and journaled, again.
        return f"{sends:,} of {result['attempted']:,} sends are there" if sends < result["attempted"] else ""
    receipts = sum(int((read_journal(receipts_path(folder, n), RECEIPT)["producer"] >= 0).sum()) for n in numbers)
    due = result["read"] - result["foreign"]
    if receipts != due:
        return f"{receipts:,} of {due:,} receipts are there"
    # A member of a share group counts the answers to its acceptances.
    reported = sum(len(read_journal(accepts_path(folder, n), ACCEPT)) for n in numbers)
    due = result.get("accepts", 0)
    return f"{reported:,} of {due:,} answers to acceptances are there" if reported != due else ""


def read_everything(
    instructions: Instructions,
    spec: LoadSpec,
    folder: Path,
    ends: Sequence[int],
    observer: Observer,
    transport: Transport | None = None,
) -> Rows:
    """The records that a new consumer reads of every partition up to its end, in the log's order.

    `ends`: each partition's end offset or, where offsets have gaps, its number of records. `transport`: None for this
    host, which has the journal in `folder`. Raises LogUnreadError when the consumer does not get there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scenario = replace(spec.scenario, consumers=Consumers(membership="assigned"))
    (worker,) = instructions.consumers_of(replace(spec, scenario=scenario)).values()
    records, timeout_s = sum(ends), LEAST_READ_S + sum(ends) * scenario.record_bytes / READ_BYTES_PER_S
    request = {**worker, "laps": False, "history": str(folder), "most_s": timeout_s + MARGIN_S}
    with Generators({CONSUME: request}, transport, leading=CONSUME) as generators:
        generators.wait_for("ready", READY_TIMEOUT_S, observer)
        generators.post(start=(began := time.monotonic()))
        whole = False
        while not whole and generators.wait_for_read(records, began + timeout_s - time.monotonic(), observer):
            _, short = _read_so_far(folder, ends, worker)
            missing = sum(end - here for _, here, end in short)
            whole = not missing
            # Others were given twice, to a consumer that had to connect again.
            records = missing + (generators.last.attempted if generators.last else records)
    rows, short = _read_so_far(folder, ends, worker)
    if short or not whole:
        raise LogUnreadError(
            f"the final read did not reach the end of the log within {timeout_s:.0f} s: "
            + ", ".join(f"partition {number} {here:,} of {end:,}" for number, here, end in short),
            rows,
        )
    return rows


def _read_so_far(
    folder: Path, ends: Sequence[int], worker: Mapping[str, Any]
) -> tuple[Rows, list[tuple[int, int, int]]]:
    """The journal of the final read, and each partition that lacks records: number, end so far, and its end."""
    rows = read_journal(receipts_path(folder, 0), RECEIPT)
    reached = [_reached(rows[rows["partition"] == n], whole=bool(worker["followed"])) for n in range(len(ends))]
    return rows, [(n, here, end) for n, (here, end) in enumerate(zip(reached, ends, strict=True)) if here < end]


def _reached(rows: Rows, *, whole: bool) -> int:
    """The end to which a partition was read: an offset where they have no gaps (`whole`), else a number of records."""
    return int(rows["offset"].max(initial=-1)) + 1 if whole else len(np.unique(rows["offset"]))
