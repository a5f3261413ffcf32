"""A producer client: sends its records as its load says, and has the outcome of each counted."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.clients import BY_KEY, Rows, SendingClient, Transactions
from perfgate.load.outcomes import Outcomes
from perfgate.load.payload import KeyPool, Values
from perfgate.load.schedule import AnySchedule, Limit, Schedule, Window, now, precise_timers
from perfgate.load.shaped import ShapedSchedule
from perfgate.model import KEY_BYTES, Keys, Payload, Sizes
from perfgate.model.histogram import LatencyRecorder

RETRY_AFTER_S = 0.02
BURST_S = 0.0025
"""A capped load at its cap sends all records due in this time at once, as Kafka's own tool does (2 ms): with less
the last batch of each hand-over is mostly empty, which costs CPU for each record, here and in the brokers."""
AT_CAP_S = 0.001
"""Sleep of a capped load that has reached its cap: the resolution of its latencies. At 50,000 records/s of 1 KiB
half of it would cost a sixth more of the client's CPU."""
NO_ROOM_S = 0.0005
"""Sleep of a client whose buffer is full: a small one must not run empty meanwhile."""
ROTATE_S = 0.005
"""Interval at which a client that does not linger begins with another partition."""
SPIN_RATE = 5_000
"""A paced client above this rate wakes every QUANTUM_S instead of for every record and acknowledgement."""
QUANTUM_S = 0.0002
PATIENCE_S = 0.1
CATCH_UP_S = 5
STALL_S = 0.25
"""A loop whose round takes longer than this stood still: stopped, or starved of a processor. It never waits for longer
than PATIENCE_S."""
ABOVE_S = 0.5
"""Records in a capped load's buffer at the window's end are withdrawn when sending them would take longer than this.
Not always: librdkafka ends the connection of a request that it had begun to send, so that records in flight on it are
sent again. Buffers that empty quickly are those of large requests, for which that is likely."""
IN_GAP = 0.75
"""Records still in it after this share of the gap between two turns are withdrawn, so that slow brokers are not busy
with them in the other side's turn. A buffer drains in a quarter of the gap; records in flight have the rest of it."""
HEARING_S = 0.002
"""Outcomes are processed for this long at a time: a producer has to send records as well. Without acknowledgements
every request has an outcome, and a burst of them passed for a generator that stands still. Outcomes processed together
may be dated together: up to this much late."""
CHUNK = 256
CHUNKS_PER_PARTITION = 8


class Sender:
    """Sends a client's share of a round, and has :class:`Outcomes` count every record."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        number: int,
        window: Window,
        client: SendingClient,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`number`: of `spec["of"]` clients; `sleep`: in s. Raises LoadClientError, ValueError."""
        self.client, self._sleep = client, sleep
        self._turns: list[list[float]] = spec.get("turns", [])
        self._gap_s: float = spec.get("gap_s", 0.0)
        self._window = Window() if self._turns else window
        self._partitions: int = spec["partitions"]
        self._own: list[int] = spec.get("own_partitions") or list(range(self._partitions))
        self._paced: bool = spec["paced"]
        self._drain_s: float = spec["drain_s"]
        self._ahead: float = spec.get("ahead_s", 0.0)  # of the run's clock, on which records bear their time
        self._records: int = spec["records"] or sys.maxsize
        points = spec["shape"]["points"] if spec.get("shape") else [(0.0, spec["rate"])]
        rate = points[0][1]
        self._rate = rate / spec["of"]
        self._shift = number / rate if self._paced else 0.0
        self._spins = max(rate, *(peak for _, peak in points)) / spec["of"] > SPIN_RATE
        self._values = Values(
            Payload(**spec["payload"]),
            run=spec["run"],
            producer=number,
            record_bytes=spec["record_bytes"],
            seed=spec["seed"],
            compressed=spec["compressed"],
            sizes=Sizes(**spec["sizes"]) if spec.get("sizes") else None,
        )
        self._messages = np.zeros(len(self._values), client.row)
        self._messages["payload"] = np.uint64(self._values.data.ctypes.data) + self._values.offsets
        self._messages["len"] = self._values.lengths
        keys = Keys(**spec["keys"])
        self._keys = KeyPool(keys, spec["seed"] + number) if keys.kind != "none" else None
        self._chunk = chunk_of(spec["buffer_bytes"], spec["record_bytes"], self._partitions)
        if self._values.every_row:
            self._chunk = chunk_that_fits(self._chunk, spec["buffer_bytes"], self._values.lengths)
        # A paced record goes out as soon as it is due.
        self._least = 1 if self._paced else max(1, min(self._chunk, int(self._rate * BURST_S)))
        self._schedule: AnySchedule = Schedule(0.0, self._rate)
        self._shape = spec.get("shape")
        """The shape that a shaped load's schedule follows once the window opens."""
        self._number, self._of = number, spec["of"]
        self._limit = Limit(spec["most_rate"] / spec["of"]) if spec.get("most_rate") else None
        self._next = self._row = self._batches = 0
        self._refused = self._messages[:0]
        self._refused_partition = 0
        self._refused_at, self._given_up = 0.0, 0
        self._late_turns: list[int] = []
        """For each turn, 1 where its records were still in flight after the gap."""
        self.pushback_s = self.pushback_in_window_s = self.stalled_in_window_s = self._committing_in_window_s = 0.0
        self._came_round = self._rotates_at = 0.0
        self.outcomes = Outcomes(spec, number, self._window, client, spec["buffer_records"] + 2 * CHUNK)
        self._withdrawing = Withdrawing(client, self._window, self.outcomes, 0.0 if self._paced else self._gap_s)
        self._rotates = self._partitions > 1 and not spec["lingers"]
        self._transactions: Transactions | None = None
        if open_s := spec["transaction_ms"] / 1e3:
            self._transactions = client.transactions(open_s, self.outcomes.acked_by_partition)

    def connect(self) -> None:
        """Learn the topic's partitions and register for transactions: the first record waits for neither."""
        self.client.connect(self._partitions)
        if self._transactions:
            self._transactions.init()

    def run(self, start: float) -> None:
        """Send until the window's end (or all records are sent), then wait for the outcome of every record, bounded.

        A capped load withdraws records in its buffer when they would take long to send, but not in a transaction, which
        would be aborted. A load in turns does so in the gap after each turn.
        """
        precise_timers()
        self._schedule = Schedule(start + self._shift, self._rate)
        self._sleep(max(0.0, start - now()))
        for turn in self._turns:
            self._take_turn(*(start + moment for moment in turn))
        if self._transactions:
            self._transactions.begin()
        self._came_round = now()
        while (moment := self._round_again()) < self._window.closes and self._next < self._records:
            if self._shape and self._window.opens < math.inf:
                opens, points, self._shape = self._window.opens, self._shape["points"], None
                self._schedule = ShapedSchedule(start, opens, points, self._number, self._of)
            self._hear()
            if self._transactions and self._transactions.due(moment):
                self._commit(self._transactions)
                self._transactions.begin()
            self._offer(moment)
        if not self._paced and self._records == sys.maxsize:
            self._forget_refused()
            if not self._turns and not self.outcomes.journal and not self._transactions:
                self._withdrawing.at_the_end()
        self._drain()
        if self._turns:
            self._late_turns.append(int(now() > self._window.closes + self._gap_s))
        if self._transactions:
            self._commit(self._transactions)
        self.outcomes.close()

    @property
    def errors(self) -> Mapping[str, str]:
        return self.client.errors

    def stop(self) -> None:
        """Do nothing: a producer ends with its window, or with its records."""

    def progress(self) -> dict[str, int]:
        done = self.outcomes
        return {"attempted": done.attempted, "done": done.acked, "failed": self.client.failed.total()}

    def recorders(self) -> dict[str, LatencyRecorder]:
        return self.outcomes.recorders()

    def result(self) -> dict[str, Any]:
        return {
            **self.outcomes.counts(),
            "markers_by_partition": self._transactions.markers_by_partition.tolist()
            if self._transactions
            else [0] * self._partitions,
            "failed": dict(self.client.failed),
            "errors": self.client.errors,
            "unsent": self._given_up + self._unsent() + (len(self._refused) if self._paced else 0),
            "late_turns": self._late_turns,
            "throttled_ms": self.client.throttled_ms,
            **getattr(self.client, "more", dict)(),
            "pushback_s": self.pushback_s,
            "pushback_in_window_s": self.pushback_in_window_s,
            "stalled_in_window_s": self.stalled_in_window_s,
            "committing_in_window_s": self._committing_in_window_s,
        }

    def _take_turn(self, starts: float, opens: float, closes: float) -> None:
        """Send from `starts` until `closes` and count from `opens` on; then give up unsent records.

        Before, process outcomes of the previous turn: late if records were still in flight after the gap.
        """
        over, busy = self._window.closes + self._gap_s, self.client.under_way() > 0
        late = False
        while (moment := now()) < starts:
            self._withdrawing.in_gap(moment)
            if not self._hear():
                self.client.wait(min(starts - moment, PATIENCE_S))
            busy = busy and self.client.under_way() > 0
            late = late or (busy and now() > over)
        if self._window.closes < math.inf:
            self._late_turns.append(int(late))
            self.outcomes.next_turn()
        self._window.set(opens, closes)
        self._schedule = Schedule(starts + self._shift - self._next / self._rate, self._rate)
        self._came_round = starts  # from then on it should send, also where it was woken later
        while (moment := self._round_again()) < closes:
            self._hear()
            self._offer(moment)
        if self._paced:
            # Records due while this thread was being woken are still sent, in the gap before the other side's turn.
            while self._last_slot() > self._next and not len(self._refused) and now() < closes + self._gap_s / 2:
                self._offer(closes)
            self._given_up += max(0, self._last_slot() - self._next) + len(self._refused)
        self._forget_refused()

    def _round_again(self) -> float:
        """The time; counts how long in the window this client has stood still since the last call."""
        moment = now()
        if moment - self._came_round > STALL_S:
            self.stalled_in_window_s += self._window.share_of(self._came_round, moment)
        self._came_round = moment
        return moment

    def _hear(self) -> int:
        """Process the outcomes received; return their number."""
        return self.client.take(self.outcomes.hear, HEARING_S)

    def _commit(self, transactions: Transactions) -> None:
        """Commit the open transaction. Nothing is sent meanwhile, which is no delay of the generator."""
        began = now()
        transactions.commit(self._hear, self._drain_s)
        self._came_round = now()
        self.outcomes.held(began, self._came_round, self._schedule.due_at(self._next))
        self._committing_in_window_s += self._window.share_of(began, self._came_round)
        if not self._paced and not len(self._refused):  # else that time is counted when the refused records are sent
            self._note_pushback(began, self._came_round)

    def _drain(self) -> None:
        """Send the records still owed, then wait for every outcome; both are bounded.

        A paced load that is behind although nothing pushed back is the generator's own fault: it may catch up for
        CATCH_UP_S, and the rest is reported as unsent.
        """
        deadline = now() + self._drain_s
        while (len(self._refused) or self._unsent() > 0) and (moment := now()) < deadline:
            pushed_back = self.pushback_s > 0 or len(self._refused) > 0
            if not pushed_back and moment > self._window.closes + CATCH_UP_S:
                break
            self._hear()
            self._offer(min(moment, self._window.closes))
        while self.client.under_way() and (moment := now()) < deadline:
            self._withdrawing.in_gap(moment)
            self._rotate()
            if not self._hear():
                self.client.wait(ROTATE_S if self._rotates else PATIENCE_S)

    def _offer(self, moment: float) -> None:
        """Send the records due at this moment, or wait a little."""
        self._rotate()
        if len(self._refused):
            self._wait_for_room()
            self._send(self._refused, self._refused_partition)
            return
        allowed = self._limit.by(now(), self._next) if self._limit else sys.maxsize
        due = min(self._schedule.due_by(moment), self._last_slot(), self._records, allowed) - self._next
        if due > 0 and (due >= self._least or due == self._records - self._next):
            self._send(self._make(min(due, self._chunk), moment), self._next_partition())
        elif self._paced and not self._spins:
            due_at = self._schedule.due_at(self._next)
            if self._limit:
                due_at = max(due_at, self._limit.next_at(self._next))
            self.client.wait(min(due_at - now(), PATIENCE_S))
        else:
            self._sleep(QUANTUM_S if self._paced else AT_CAP_S)

    def _rotate(self) -> None:
        if self._rotates and now() > self._rotates_at:
            self._rotates_at = now() + ROTATE_S
            self.client.rotate()

    def _wait_for_room(self) -> None:
        """Wait, bounded, for as many outcomes as records wait; of a small buffer for few: it must not run empty."""
        waiting = self.client.under_way()
        # With every outcome known there is room.
        enough = min(len(self._refused), max(1, waiting // 16)) if waiting else 0
        deadline = now() + RETRY_AFTER_S
        while enough > 0 and (moment := now()) < deadline:
            resolved = self._hear()
            enough -= resolved
            if resolved:
                continue
            if enough == 1:
                self.client.wait(deadline - moment)  # the record is sent as soon as there is room
            else:
                self._sleep(NO_ROOM_S)

    def _next_partition(self) -> int:
        if self._keys is not None:
            return BY_KEY
        self._batches += 1
        return self._own[self._batches % len(self._own)]

    def _make(self, count: int, moment: float) -> Rows:
        """The next records, numbered, dated and keyed."""
        if self._values.every_row:
            self._row %= len(self._messages)
            count = min(count, len(self._messages) - self._row)
        count = min(count, len(self._messages))
        if self._row + count > len(self._messages):
            self._row = 0
        row, self._row = self._row, self._row + count
        sequences = np.arange(self._next, self._next + count, dtype=np.uint64)
        self._next += count
        due = self._schedule.due(sequences) if self._paced else np.full(count, moment)
        self._values.stamp(row, sequences, due - self._ahead)
        self.outcomes.note_due(sequences, due)
        messages = self._messages[row : row + count]
        messages["private"] = sequences
        if self._keys is not None:
            messages["key"] = np.uint64(self._keys.data.ctypes.data) + self._keys.draw(count)
            messages["key_len"] = KEY_BYTES
        return messages

    def _send(self, messages: Rows, partition: int) -> None:
        messages["err"] = 0
        moment = now()
        if len(self._refused):
            self.outcomes.held(self._refused_at, moment, self._schedule.due_at(int(messages["private"][0])))
        self.outcomes.hand_over(messages, partition, moment)
        refused = messages[:0]
        if self.client.send(messages, partition) < len(messages):
            errors, full = messages["err"], messages["err"] == self.client.FULL
            refused = messages[full]
            self.outcomes.count_failures(errors[(errors != 0) & ~full])
            messages = messages[~full]
        self.outcomes.handed_over(messages, moment)
        if len(refused) and not len(self._refused):
            self._refused_at = moment
        elif len(self._refused) and not len(refused):
            self._note_pushback(self._refused_at, now())
        self._refused, self._refused_partition = refused, partition

    def _note_pushback(self, since: float, until: float) -> None:
        self.pushback_s += until - since
        self.pushback_in_window_s += self._window.share_of(since, until)

    def _forget_refused(self) -> None:
        """Drop records that a capped load could not send by the window's end: they were never attempted."""
        if len(self._refused):
            self._note_pushback(self._refused_at, now())
            self._refused = self._messages[:0]

    def _last_slot(self) -> int:
        """Number of records of a paced load in all: those due before the window's end."""
        closes = self._window.closes
        return self._schedule.due_by(closes) if closes < float("inf") else sys.maxsize

    def _unsent(self) -> int:
        """Number of records still owed; a capped load owes none."""
        return self._last_slot() - self._next if self._paced and not self._turns else 0


class Withdrawing:
    """Withdraws unsent records at the window's end, or in the gap (s) after each turn; none of them is in the log."""

    def __init__(self, client: SendingClient, window: Window, outcomes: Outcomes, gap_s: float) -> None:
        self._client, self._window, self._outcomes, self._gap_s = client, window, outcomes, gap_s
        self._turn = math.inf
        """End of the last turn that was handled."""

    def at_the_end(self) -> None:
        """Withdraw records that would keep the brokers busy for long at the window's rate."""
        waiting, window_s = self._client.under_way(), self._window.closes - self._window.opens
        if waiting * window_s > ABOVE_S * self._outcomes.acked_in_window:
            self._client.withdraw()

    def in_gap(self, moment: float) -> None:
        """Withdraw, once a turn, the rest when most of the gap after it is over; without turns do nothing."""
        closes = self._window.closes
        if self._gap_s and closes != self._turn and moment > closes + IN_GAP * self._gap_s:
            self._turn = closes
            if self._client.under_way():
                self._client.withdraw()


def chunk_of(buffer_bytes: int, record_bytes: int, partitions: int) -> int:
    """Number of records sent at a time, to one partition; few enough for a small buffer to serve every partition.

    With chunks of its own size one at a time was served: 40 % of the rate over a slow link with 64 KiB.
    """
    return max(1, min(CHUNK, buffer_bytes // record_bytes // (CHUNKS_PER_PARTITION * partitions)))


def chunk_that_fits(chunk: int, buffer_bytes: int, lengths: npt.NDArray[np.uint64]) -> int:
    """The largest part of `chunk` of which no run of rows of these lengths fills more than half of the buffer."""
    sums = np.concatenate(([0], np.cumsum(lengths.astype(np.int64))))
    while chunk > 1 and int((sums[chunk:] - sums[:-chunk]).max(initial=0)) > buffer_bytes // 2:
        chunk //= 2
    return chunk
