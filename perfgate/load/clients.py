"""Protocols of a system's sending and reading clients, which a worker process loads; their errors and memory."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.void]
"""Records that are sent, acknowledged or read: structures of the client's own layout, with at least these fields.

`payload`, `len`, `key`, `key_len`: address and bytes of value and key, unsigned. `private`: the number that the sender
has given the record, uint64; it comes back with the outcome. `partition`: int32. `offset`: int64. `err`: the client's
code of an error, int32, 0 for none. A client that reads needs payload, len, partition, offset and err alone.
"""
Moments = float | npt.NDArray[np.float64]
"""Times at which rows became known, in s on the monotonic clock: an array, or the same time for all of them."""
Hear = Callable[[Rows, Moments], None]
"""Takes rows, and copies what it needs of them and of the memory they point at, which the client uses again."""
BY_KEY = -1
"""In place of a partition: the client chooses each record's by its key."""
Pointers = npt.NDArray[np.uint64]
Signatures = Mapping[str, tuple[Any, tuple[Any, ...]]]
"""Types of the result and of the arguments of a library's functions, by name."""


def declare(library: ctypes.CDLL, signatures: Signatures) -> None:
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


class _AllMemory:
    """This process's memory as an array of `size`-byte items, at every address from 1 on."""

    def __init__(self, size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "shape": ((1 << 47) - size - 1,),
            "strides": (1,),
            "data": (1, True),
        }


def reader(dtype: np.dtype[Any]) -> Callable[[Pointers], npt.NDArray[Any]]:
    """A function that copies the structure of this type at each of its addresses, which must be readable."""
    memory = np.asarray(_AllMemory(dtype.itemsize))
    return lambda pointers: memory[pointers.view(np.int64) - 1].view(dtype)


class LoadClientError(Exception):
    """A client could not be created or a call was refused; the message is the client's."""


class UnansweredError(LoadClientError):
    """The brokers did not answer a client as it needs; `code` is the client's name of the error."""

    def __init__(self, reason: str, code: str) -> None:
        super().__init__(reason)
        self.code = code


class TransactionError(UnansweredError):
    """The brokers did not end a transaction as they should."""


class BrokerClient(Protocol):
    """Common to both kinds. A client is used by a single thread, and ends with its process."""

    errors: dict[str, str]
    """The first words of each kind of error, by its name."""
    failed: Counter[str]
    """Number of records or requests that ended in each kind of error, as given to `count_failure`."""
    throttled_ms: int
    """Time for which brokers delayed their answers because of a quota."""
    NO_ANSWER: str
    """The client's name of the error that an answer did not come in time."""

    def wait(self, seconds: float) -> None:
        """Wait for outcomes or records, for `seconds` at most (microseconds count)."""

    def count_failure(self, code: int, records: int) -> None:
        """Add to `failed`, and note the words, of an error by the code that rows bear."""


class Transactions(Protocol):
    """Keeps a transaction open for a time, commits it, begins the next."""

    markers_by_partition: npt.NDArray[np.int64]
    """Log positions taken by commit markers in each partition."""

    def init(self) -> None:
        """Register the producer, which ends a transaction that its last user left open. Raises UnansweredError."""

    def begin(self) -> None: ...

    def due(self, moment: float) -> bool:
        """Whether the transaction has been open for long enough."""

    def commit(self, hear: Callable[[], int], within_s: float) -> None:
        """Commit when `hear` has counted all records as acknowledged. Raises UnansweredError if one is not in time."""


class SendingClient(BrokerClient, Protocol):
    """A producer of a topic. It may have `more()`: further lists of the result, by name."""

    row: np.dtype[Any]
    """Layout of the rows that `send` takes."""
    FULL: int
    """`err` of a row for which the client's buffer has no room: it is offered again."""
    PURGED: int
    """`err` of a row that was withdrawn before it left."""

    @property
    def TIMED_OUT(self) -> tuple[int, ...]:
        """`err` of rows that were not answered in time, and may be in the log nevertheless."""

    def connect(self, partitions: int) -> None:
        """Be ready to send. Raises LoadClientError, also for another number of partitions, UnansweredError."""

    def send(self, rows: Rows, partition: int) -> int:
        """Send in this order, and copy the memory that the rows point at; return the number of rows accepted.

        The others' `err` is set (it is 0 when called): FULL, or the reason why a record cannot be sent at all, which is
        its outcome. `rows` is contiguous. `partition`: of all of them, or BY_KEY.
        """

    def under_way(self) -> int:
        """Number of records accepted whose outcome is not known yet."""

    def withdraw(self) -> None:
        """Give up records not sent yet: their outcome is PURGED. Does nothing where a client cannot."""

    def take(self, hear: Hear, most_s: float) -> int:
        """Pass on the outcomes received, for about `most_s` at most and without waiting; return their number.

        Rows need private, partition, offset, len and err; the partition of an acknowledged record is known.
        """

    def rotate(self) -> None:
        """Have the client begin with another partition's records, where its order could starve a partition."""

    def transactions(self, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> Transactions:
        """Transactions of `open_s`. `acked_by_partition` is counted by the caller. Raises LoadClientError without."""


class ReadingClient(BrokerClient, Protocol):
    """A consumer of a topic."""

    AT_END: int
    """`err` of a row for a partition that was read to its end, the row's `offset`; only with the spec's "laps"."""
    fetches: int
    fetch_ms: float
    """Number of fetch requests in the window, and the sum of their times; both 0 where a client does not know."""
    redelivered: int
    """Records delivered before, to any client, as the brokers report; used where each record goes to any client."""
    accepts: int
    """Number of answers to acceptances in the journal (`accepts_path` of the spec's "history")."""

    def connect(self, partitions: int) -> None:
        """Ask for the partitions ("assigned", or the group's), not waiting. Raises LoadClientError, UnansweredError."""

    def assignment(self) -> int:
        """Number of partitions that it has at present."""

    def take(self, hear: Hear) -> int:
        """Pass on rows in order, without waiting (a little, where nothing can wake it); return how many."""

    def rest(self, rests: bool) -> None:
        """Stop fetching, or resume from the last position; records that were fetched ahead are delivered again."""

    def rewind(self, partition: int) -> None:
        """Read a partition again from its start. Raises UnansweredError."""

    def close(self) -> None:
        """Leave the group, if it is a member."""


class ClientModule(Protocol):
    """The module of a system's clients, in a process of its own with the client that the scenario asks for."""

    def sending(self, spec: Mapping[str, Any], number: int) -> SendingClient:
        """The client of this number. Raises LoadClientError when a setting is refused."""

    def reading(self, spec: Mapping[str, Any], number: int, counts: Callable[[], bool]) -> ReadingClient:
        """The client of this number; `counts`: whether the window is open. Raises LoadClientError."""

    def round_trip_ms(self, spec: Mapping[str, Any]) -> float:
        """Median of the round trips from here to the brokers of the spec's "bootstrap". Raises TargetError."""
