"""Outcomes of a producer's records: counted, timed and, where asked for, recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.clients import Moments, Rows, SendingClient
from perfgate.load.history import OUTCOME, SEND, Journal, outcomes_path, sends_path
from perfgate.load.schedule import Window, moments_of, now
from perfgate.load.shaped import OverTime
from perfgate.model.histogram import MOST_PARTITIONS, LatencyRecorder

MOST_APART = 8
"""A ring of times has room for at least this many times the records that may be in flight."""
MOST_BITS = 22
"""And for as many times as there are partitions, where that is no more than 2**22 records: 64 MiB a client."""


class Outcomes:
    """Counts the records of a producer: attempted = acked + failed + withdrawn + unresolved.

    Their times are kept by sequence number: `due` to be sent, `sent` when the client accepted it.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        number: int,
        window: Window,
        client: SendingClient,
        under_way: int,
        clock: Callable[[], float] = now,
    ) -> None:
        """`under_way`: largest number of records without an outcome at a time; `clock`: that of the window, in s."""
        self._window, self._client, self._now = window, client, clock
        self._partitions: int = spec["partitions"]
        self._paced: bool = spec["paced"]
        self._passed: list[float] = []
        """Edges of the windows of earlier turns: outcomes of records due in them may still come."""
        # Records go to the partitions in turn: while a partition stands still the others go on, so that the numbers of
        # the oldest and newest records in flight are that many times further apart.
        least = under_way * min(self._partitions, MOST_APART)
        ring = 1 << max(least.bit_length(), min(MOST_BITS, (under_way * self._partitions).bit_length()))
        self._due, self._sent = np.zeros(ring), np.zeros(ring)
        self._mask = np.uint64(ring - 1)
        self.attempted = self.acked = self.withdrawn = 0
        self.acked_by_partition = np.zeros(self._partitions, np.int64)
        self.attempted_in_window = self.acked_in_window = self.acked_bytes_in_window = 0
        self._held = (0.0, 0.0)
        """The last time span in which nothing could be sent, as begin and end."""
        self.due_in_window = self.timed_out_in_window = 0
        topics = len(spec["topics"])
        self._of_topic = self._partitions // topics if topics > 1 and self._partitions > MOST_PARTITIONS else 0
        """Partitions of each topic, where latencies are kept apart by topic: there are too many partitions for that."""
        self._latency = LatencyRecorder(topics, most=topics) if self._of_topic else LatencyRecorder(self._partitions)
        shape = spec.get("shape")
        self._over_time = OverTime(window, shape["points"][-1][0], shape["phases"]) if shape else None
        self._send_latency, self._schedule_delay = LatencyRecorder(), LatencyRecorder()
        self.journal = _Journals(Path(spec["history"]), number) if spec.get("history") else None

    def recorders(self) -> dict[str, LatencyRecorder]:
        paced = {"send_latency": self._send_latency, "schedule_delay": self._schedule_delay}
        phases = self._over_time.recorders if self._over_time else {}
        return {"latency": self._latency, **(paced if self._paced else {}), **phases}

    def counts(self) -> dict[str, Any]:
        latencies = self._latency.by_partition()
        return {
            "attempted": self.attempted,
            "acked": self.acked,
            "acked_by_partition": self.acked_by_partition.tolist(),
            "latency_by_partition": [] if self._of_topic else latencies,
            "latency_by_topic": latencies if self._of_topic else [],
            "withdrawn": self.withdrawn,
            "unresolved": self.attempted - self.acked - self._client.failed.total() - self.withdrawn,
            "attempted_in_window": self.attempted_in_window,
            "acked_in_window": self.acked_in_window,
            "acked_bytes_in_window": self.acked_bytes_in_window,
            "due_in_window": self.due_in_window,
            "timed_out_in_window": self.timed_out_in_window,
            **(self._over_time.counts() if self._over_time else {}),
        }

    def next_turn(self) -> None:
        """Note that the window is about to become that of the next turn."""
        self._passed += [self._window.opens, self._window.closes]

    def note_due(self, sequences: npt.NDArray[np.uint64], due: npt.NDArray[np.float64]) -> None:
        self._due[sequences & self._mask] = due

    def held(self, since: float, until: float, due: float) -> None:
        """Note that nothing could be sent between these moments: that is no delay of the generator.

        `due` of the first waiting record: where it had waited before, the time in between is part of catching up.
        """
        self._held = (self._held[0] if due <= self._held[1] else since, until)

    def hand_over(self, messages: Rows, partition: int, moment: float) -> None:
        """Note that these records, with consecutive numbers, are about to be sent."""
        if self.journal:
            self.journal.hand_over(messages, partition, moment)
        self._sent[messages["private"] & self._mask] = moment

    def handed_over(self, messages: Rows, moment: float) -> None:
        """Count records that the client has not rejected."""
        self.attempted += len(messages)
        if self._window.holds(moment):
            self.attempted_in_window += len(messages)
        if self._paced:
            due = self._due[messages["private"] & self._mask]
            since, until = self._held
            late = self._now() - due - np.maximum(0.0, until - np.maximum(due, since))
            inside = (due >= self._window.opens) & (due < self._window.closes)
            self._schedule_delay.record(late[inside])
            if self._over_time:
                self._over_time.handed_over(int(np.count_nonzero(inside)), moment)

    def hear(self, messages: Rows, heard: Moments) -> None:
        """Count and time records whose outcomes have come."""
        if self.journal:
            self.journal.hear(messages, heard)
        failures = messages["err"] != 0
        if failures.any():
            codes = messages["err"][failures]
            if self._paced:
                due = self._in_window(messages["private"][failures])
                self.due_in_window += int(np.count_nonzero(due))
                self.timed_out_in_window += int(np.count_nonzero(due & np.isin(codes, self._client.TIMED_OUT)))
            purged = codes == self._client.PURGED
            self.withdrawn += int(np.count_nonzero(purged))
            self.count_failures(codes[~purged])
            messages, heard = messages[~failures], moments_of(heard, ~failures)
        self.acked += len(messages)
        self.acked_by_partition += np.bincount(messages["partition"], minlength=self._partitions)
        if isinstance(heard, float) and heard < self._window.opens and not self._passed:
            return
        counts = self._window.index_of(heard)
        counted = messages[counts]
        self.acked_in_window += len(counted)
        self.acked_bytes_in_window += int(counted["len"].sum())
        if self._paced:
            counts = self._in_window(messages["private"])
            counted = messages[counts]
            self.due_in_window += len(counted)
        # Of the records accepted in the window many may be withdrawn, the slowest: that would flatter the latency.
        slots, heard = counted["private"] & self._mask, moments_of(heard, counts)
        began = self._due if self._paced else self._sent
        keys = counted["partition"] // self._of_topic if self._of_topic else counted["partition"]
        self._latency.record(heard - began[slots], keys)
        if self._paced:
            self._send_latency.record(heard - self._sent[slots])
        if self._over_time and len(slots):
            self._over_time.acknowledged(began[slots], np.broadcast_to(heard, len(slots)))

    def _in_window(self, sequences: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        edges = [*self._passed, self._window.opens, self._window.closes]
        passed = np.searchsorted(edges, self._due[sequences & self._mask], side="right")
        return np.asarray(passed % 2 == 1)

    def close(self) -> None:
        if self.journal:
            self.journal.close()

    def count_failures(self, codes: npt.NDArray[np.int32]) -> None:
        for code, records in zip(*np.unique(codes, return_counts=True), strict=True):
            self._client.count_failure(int(code), int(records))


class _Journals:
    """Journals of a producer: records before they are sent, and their outcomes."""

    def __init__(self, folder: Path, producer: int) -> None:
        self._sends = Journal(str(sends_path(folder, producer)))
        self._outcomes = Journal(str(outcomes_path(folder, producer)))

    def hand_over(self, messages: Rows, partition: int, moment: float) -> None:
        self._sends.write(np.array([(moment, messages["private"][0], len(messages), partition)], SEND))

    def hear(self, messages: Rows, heard: Moments) -> None:
        rows = np.zeros(len(messages), OUTCOME)
        rows["at"] = heard
        rows["sequence"], rows["offset"] = messages["private"], messages["offset"]
        rows["partition"], rows["error"] = messages["partition"], messages["err"]
        self._outcomes.write(rows)

    def close(self) -> None:
        self._sends.close()
        self._outcomes.close()
