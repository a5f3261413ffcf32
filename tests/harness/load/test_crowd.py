"""A crowd of connections: each record's outcome is heard once, whatever becomes of its connection."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from perfgate.load.clients import LoadClientError, Moments, Rows, UnansweredError
from perfgate.systems.kafka.client import wire
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.crowd import Crowd
from tests.harness.build.fake_kafka import FakeKafka, fake_kafka

VALUE = np.frombuffer(b"a record of thirty-one bytes...", np.uint8)
BOUND_S = 10.0


@pytest.fixture
def made() -> Iterator[list[Crowd]]:
    """Crowds of a test; their sockets end with it, as those of a generator end with its process."""
    crowds: list[Crowd] = []
    yield crowds
    for one in crowds:
        for connection in one._by_file.values():
            assert connection.socket
            connection.socket.close()
        one._epoll.close()


@pytest.fixture
def crowd(made: list[Crowd]) -> Callable[..., Crowd]:
    def make(broker: FakeKafka, connections: int, idle: int = 0, within_ms: int = 5_000, **settings: str) -> Crowd:
        stated = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "acks": "-1", "delivery.timeout.ms": str(within_ms)}
        made.append(Crowd({**stated, **settings}, "one", connections=connections, idle=idle))
        return made[-1]

    return make


def rows_of(numbers: range) -> Rows:
    rows = np.zeros(len(numbers), clib.MESSAGE)
    rows["payload"], rows["len"] = VALUE.ctypes.data, len(VALUE)
    rows["private"] = numbers
    return rows


def outcomes(client: Crowd, expected: int) -> list[np.void]:
    """Return what is heard, once as many outcomes have come."""
    heard: list[np.void] = []

    def hear(rows: Rows, moments: Moments) -> None:
        heard.extend(rows.copy())

    deadline = time.monotonic() + BOUND_S
    while len(heard) < expected and time.monotonic() < deadline:
        if not client.take(hear, 0.002):
            client.wait(0.01)
    return heard


def test_crc_is_that_of_the_standard() -> None:
    assert wire.crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4


@pytest.mark.parametrize(("number", "encoded"), [(0, b"\0"), (-1, b"\1"), (1, b"\2"), (63, b"\x7e"), (64, b"\x80\1")])
def test_varints(number: int, encoded: bytes) -> None:
    assert wire.varint(number) == encoded


def test_every_connection_has_its_turn(crowd: Callable[..., Crowd]) -> None:
    with fake_kafka() as broker:
        client = crowd(broker, connections=30, idle=6)
        client.connect(3)
        for partition in range(3):
            assert client.send(rows_of(range(20 * partition, 20 * partition + 20)), partition) == 20
        heard = outcomes(client, 60)
        assert sorted(int(row["private"]) for row in heard) == list(range(60))
        assert Counter(int(row["partition"]) for row in heard) == {0: 20, 1: 20, 2: 20}
        assert broker.ends == [20, 20, 20]
        for partition in range(3):
            assert sorted(int(r["offset"]) for r in heard if r["partition"] == partition) == list(range(20))
        assert {int(row["len"]) for row in heard} == {len(VALUE)}
        assert client.under_way() == 0
        taken(client, lambda: client.reached == 36)
        (asked, reached, settled_us) = client.more()["crowd"]
        assert (asked, reached) == (36, 36)
        assert 0 < settled_us < 1e6 * BOUND_S
        assert broker.accepted == 1 + 36, "one for the metadata"


def taken(client: Crowd, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not until() and time.monotonic() < deadline:
        client.take(lambda *_: None, 0.002)
        client.wait(0.01)


def test_idle_consumers_wait_for_more_than_there_ever_is(crowd: Callable[..., Crowd]) -> None:
    """The whole answer was to have one byte at most, so that a broker answered each of them at every record."""
    with fake_kafka(partitions=1) as broker:
        client = crowd(broker, connections=1, idle=2)
        client.connect(1)
        client.send(rows_of(range(1)), 0)
        taken(client, lambda: client.reached == 3)
        assert broker.waits_for == 1 << 30


def test_an_idle_consumer_without_an_answer_asks_again_later(crowd: Callable[..., Crowd]) -> None:
    """It asked at once, and from offset -1: an error for good, of each connection a thousand times a second."""
    with fake_kafka(partitions=1) as broker:
        broker.read_error = 6
        client = crowd(broker, connections=1, idle=2)
        client.connect(1)
        client.send(rows_of(range(1)), 0)
        taken(client, lambda: broker.asked[1] >= 4)
        assert (client.reached, list(client.errors)) == (1, ["NOT_LEADER_FOR_PARTITION"])
        assert broker.asked[1] < 8
        broker.read_error = 0
        taken(client, lambda: client.reached == 3)
        assert [one.offset for one in client._idle] == [1, 1]


def test_an_idle_consumer_that_lost_its_connection_makes_another(crowd: Callable[..., Crowd]) -> None:
    with fake_kafka(partitions=1) as broker:
        client = crowd(broker, connections=1, idle=2)
        client.connect(1)
        client.send(rows_of(range(1)), 0)
        taken(client, lambda: client.reached == 3)
        broker.drop()
        taken(client, lambda: client.reached < 3)
        assert client.reached < 3
        taken(client, lambda: client.reached == 3)
        assert client.more()["crowd"][:2] == [3, 3]


def test_a_part_that_never_gets_an_answer_times_out(crowd: Callable[..., Crowd]) -> None:
    with fake_kafka(partitions=1, answered=1 + 7) as broker:
        client = crowd(broker, connections=10, within_ms=400)
        client.connect(1)
        client.send(rows_of(range(10)), 0)
        heard = outcomes(client, 10)
        assert Counter(int(row["err"]) for row in heard) == {0: 7, clib.TIMED_OUT[0]: 3}
        assert client.more()["crowd"] == [10, 7, 0]
        assert client.under_way() == 0


def test_connections_that_are_refused_have_failed(crowd: Callable[..., Crowd]) -> None:
    with fake_kafka(partitions=1) as broker:
        client = crowd(broker, connections=4)
        client.connect(1)
    client.send(rows_of(range(4)), 0)
    heard = outcomes(client, 4)
    assert [int(row["err"]) for row in heard] == [-195] * 4
    assert "refused" in client.errors["_TRANSPORT"]
    assert client.more()["crowd"] == [4, 0, 0]


def test_of_a_names_addresses_one_that_takes_connections_is_used(
    crowd: Callable[..., Crowd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where brokers listen on IPv4 alone and their name has IPv6 first, every send failed; librdkafka tries both."""

    def both(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        kind = (socket.SOCK_STREAM, 6, "")
        return [(socket.AF_INET6, *kind, ("::1", port, 0, 0)), (socket.AF_INET, *kind, (host, port))]

    with fake_kafka(partitions=1) as broker:
        monkeypatch.setattr(socket, "getaddrinfo", both)
        client = crowd(broker, connections=2)
        client.connect(1)
        client.send(rows_of(range(2)), 0)
        assert [int(row["err"]) for row in outcomes(client, 2)] == [0, 0]


def test_an_error_of_the_brokers_is_the_records_outcome(crowd: Callable[..., Crowd]) -> None:
    with fake_kafka(partitions=1, error=19) as broker:
        client = crowd(broker, connections=2)
        client.connect(1)
        client.send(rows_of(range(2)), 0)
        heard = outcomes(client, 2)
        assert [int(row["err"]) for row in heard] == [19, 19]
        assert client.reached == 0


def test_a_connection_holds_few_records_back(crowd: Callable[..., Crowd]) -> None:
    with fake_kafka(partitions=1, answered=1) as broker:
        client = crowd(broker, connections=1)
        client.connect(1)
        rows = rows_of(range(70))
        assert client.send(rows, 0) == 64
        assert [int(row["err"]) for row in rows[64:]] == [client.FULL] * 6
        assert client.under_way() == 64


def test_what_a_crowd_cannot_do(crowd: Callable[..., Crowd]) -> None:
    with fake_kafka() as broker:
        with pytest.raises(LoadClientError, match=r"no log-in and no TLS: security\.protocol is sasl_ssl"):
            crowd(broker, 1, 0, 5_000, **{"security.protocol": "SASL_SSL"})
        with pytest.raises(LoadClientError, match="open files, and a process may have"):
            crowd(broker, 10_000_000)
        with pytest.raises(LoadClientError, match="it has 3 partitions, not 4"):
            crowd(broker, 1).connect(4)
        client = crowd(broker, 1)
    with pytest.raises(UnansweredError, match="no metadata of one"):
        client.connect(3)
