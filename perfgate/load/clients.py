"""Protocols of a system's clients, one that sends and one that reads, their errors, and copies of their memory.

A worker process loads ``perfgate.systems.<system>.load.clients``, a :class:`ClientModule`, by the "system" of its spec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.void]
"""Records that are handed over, heard of or read: structures of the client's own layout, with at least these fields.

`payload`, `len`, `key`, `key_len`: address and bytes of value and key, unsigned. `private`: the number that the sender
has given the record, uint64; it comes back with the outcome. `partition`: int32. `offset`: int64. `err`: the client's
code of an error, int32, 0 for none. A client that reads needs payload, len, partition, offset and err alone.
"""
Moments = float | npt.NDArray[np.float64]
"""When rows became known, in s on the monotonic clock: of each, or one moment for all of them."""
Hear = Callable[[Rows, Moments], None]
"""Takes rows, and copies what it needs of them and of what they point at: that is the client's again afterwards."""
BY_KEY = -1
"""Instead of a partition: the client chooses one for each record by its key."""
Pointers = npt.NDArray[np.uint64]


class _AllMemory:
    """This process's memory as an array of `size`-byte items, one at every address from 1 on."""

    def __init__(self, size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "shape": ((1 << 47) - size - 1,),
            "strides": (1,),
            "data": (1, True),
        }


def reader(dtype: np.dtype[Any]) -> Callable[[Pointers], npt.NDArray[Any]]:
    """Return a function that copies the structure of this type at each of its addresses, which must be readable."""
    memory = np.asarray(_AllMemory(dtype.itemsize))
    return lambda pointers: memory[pointers.view(np.int64) - 1].view(dtype)


class LoadClientError(Exception):
    """A client could not be made or a call was refused; the message is the client's."""


class UnansweredError(LoadClientError):
    """The brokers did not give a client what it needs; `code` is the client's name of the error."""

    def __init__(self, reason: str, code: str) -> None:
        super().__init__(reason)
        self.code = code


class TransactionError(UnansweredError):
    """The brokers did not end a transaction as they should."""


class BrokerClient(Protocol):
    """Common to both kinds. One thread uses a client, which ends with its process."""

    errors: dict[str, str]
    """The first words of each kind of error, by its name."""
    failed: Counter[str]
    """Records or requests that ended in each kind of error, as given to `count_failure`."""
    throttled_ms: int
    """Time for which brokers held their answers back because of a quota."""
    NO_ANSWER: str
    """The client's name of the error that an answer did not come in time."""

    def wait(self, seconds: float) -> None:
        """Wait until there is something to take, for `seconds` at most (microseconds count)."""

    def count_failure(self, code: int, records: int) -> None:
        """Add to `failed`, and note the words, of an error by the code that rows bear."""


class Transactions(Protocol):
    """Keeps one transaction open for a time, commits it, begins the next."""

    markers_by_partition: npt.NDArray[np.int64]
    """Log positions that commits have taken in each partition, beside the records."""

    def init(self) -> None:
        """Register the producer, which ends what its last user left open. Raises UnansweredError."""

    def begin(self) -> None: ...

    def due(self, moment: float) -> bool:
        """Whether the open one has been open for long enough."""

    def commit(self, hear: Callable[[], int], within_s: float) -> None:
        """Wait until all records of the open one are acknowledged, which `hear` counts, then commit it.

        Raises UnansweredError when one was not acknowledged, or when it takes longer.
        """


class SendingClient(BrokerClient, Protocol):
    """A producer of one topic. One that knows more of the load in the end has `more()`: lists by their names in the
    result."""

    row: np.dtype[Any]
    """The layout of the rows that `send` is given."""
    FULL: int
    """`err` of a row that found no room in the client's buffer: it is offered again."""
    PURGED: int
    """`err` of a row that was withdrawn before it left."""

    @property
    def TIMED_OUT(self) -> tuple[int, ...]:
        """`err` of rows that were not answered in time, and may be in the log nevertheless."""

    def connect(self, partitions: int) -> None:
        """Be ready to send: the first record waits for nothing. Raises LoadClientError, UnansweredError.

        Also where the topic has another number of partitions.
        """

    def send(self, rows: Rows, partition: int) -> int:
        """Hand over, in this order, and copy what the rows point at; return how many were taken.

        The others' `err` is set (it is 0 when called): FULL, or why a record cannot be sent at all, which is its
        outcome. `rows` is contiguous. `partition`: of all of them, or BY_KEY.
        """

    def under_way(self) -> int:
        """How many records were taken whose outcome has not been heard yet."""

    def withdraw(self) -> None:
        """Give up what was not sent yet: its outcome is PURGED. Does nothing where a client cannot."""

    def take(self, hear: Hear, most_s: float) -> int:
        """Pass on the outcomes that there are, for about `most_s` at most and without waiting; return their number.

        Rows need private, partition, offset, len and err; of an acknowledged one the partition is known.
        """

    def rotate(self) -> None:
        """Have the client begin with another partition's records, where its order could starve one."""

    def transactions(self, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> Transactions:
        """Transactions of `open_s`. `acked_by_partition` is counted by the caller. Raises LoadClientError without."""


class ReadingClient(BrokerClient, Protocol):
    """A consumer of one topic."""

    AT_END: int
    """`err` of a row that says that its partition was read to its end, which is the row's `offset`.

    Only where the spec's "laps" asks for it it is taken notice of.
    """
    fetches: int
    fetch_ms: float
    """Requests for records in the window, and the time of all their answers; both 0 where a client does not know."""
    redelivered: int
    """Records that were given to some client before, as the brokers say; counts where each goes to any client."""
    accepts: int
    """Answers to acceptances of records that are in the journal (`accepts_path` of the spec's "history")."""

    def connect(self, partitions: int) -> None:
        """Ask for the partitions: those of the spec's "assigned", or what the group gives, which is not waited for.

        Raises LoadClientError, UnansweredError.
        """

    def assignment(self) -> int:
        """Number of partitions that it has at present."""

    def take(self, hear: Hear) -> int:
        """Pass on what is there, errors too, in the order read and without waiting; return the number of rows.

        A client that nothing can wake may wait a little here, and not in `wait`.
        """

    def rest(self, rests: bool) -> None:
        """Ask the brokers for nothing, or read on from where it was; what was fetched ahead is given again."""

    def rewind(self, partition: int) -> None:
        """Read a partition again from its start. Raises UnansweredError."""

    def close(self) -> None:
        """Leave the group, if it is a member of one."""


class ClientModule(Protocol):
    """The module of a system's clients, in a process of its own with the client that the scenario asks for."""

    def sending(self, spec: Mapping[str, Any], number: int) -> SendingClient:
        """The client of this number of all. Raises LoadClientError when a setting is refused."""

    def reading(self, spec: Mapping[str, Any], number: int, counts: Callable[[], bool]) -> ReadingClient:
        """The client of this number of all; `counts`: whether the window is open. Raises LoadClientError."""

    def round_trip_ms(self, spec: Mapping[str, Any]) -> float:
        """Median of the round trips from here to the brokers of the spec's "bootstrap". Raises TargetError."""
