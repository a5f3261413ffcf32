"""Frames of Pulsar's binary protocol: their bytes, those that are refused, and a round trip."""

import io
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model.errors import BrokersFailedError
from perfgate.systems.pulsar.client import roundtrip
from perfgate.systems.pulsar.client.roundtrip import SAMPLES, ping_rtt_ms

CONNECTED = bytes.fromhex("0000000d 00000009 0803 1a05 0a03 342e30".replace(" ", ""))
"""BaseCommand{type: CONNECTED, connected: CommandConnected{server_version: "4.0"}}, by hand."""
PONG = bytes.fromhex("00000009 00000005 0813 9a01 00".replace(" ", ""))


def test_frames_have_the_bytes_that_the_protocol_asks_for() -> None:
    assert roundtrip.ping().hex() == "0000000900000005" + "0812" + "920100"
    body = "0a0f" + b"kafka-perf-gate".hex() + "200c"
    assert roundtrip.connect().hex() == "0000001b00000017" + "0802" + "1213" + body


@pytest.mark.parametrize(("frame", "kind"), [(CONNECTED, roundtrip.CONNECTED), (PONG, roundtrip.PONG)])
def test_types_are_read_and_the_next_frame_begins_where_this_one_ends(frame: bytes, kind: int) -> None:
    stream = io.BytesIO(frame + roundtrip.ping())
    assert roundtrip.read_type(stream.read) == kind
    assert roundtrip.read_type(stream.read) == roundtrip.PING
    assert stream.read() == b""


@pytest.mark.parametrize(
    "frame",
    ["0000000400000000", "0000000200000001", "7fffffff00000001", "0000000600000002ffff", "0000000600000002" + "0a00"],
)
def test_bytes_that_are_no_frame_are_refused(frame: str) -> None:
    with pytest.raises(ValueError, match=r"frame of|type|number"):
        roundtrip.read_type(io.BytesIO(bytes.fromhex(frame)).read)


@given(st.binary(min_size=8, max_size=64))
def test_no_bytes_hang_or_break_the_reader(data: bytes) -> None:
    stream = io.BytesIO(data)

    def read(count: int) -> bytes:
        if len(found := stream.read(count)) < count:
            raise ConnectionError
        return found

    with suppress(ValueError, ConnectionError):
        assert roundtrip.read_type(read) >= 0


def broker(answers: Callable[[socket.socket], None]) -> int:
    """Return the port of a broker that handles one connection so."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening, listening.accept()[0] as connection:
            answers(connection)

    threading.Thread(target=serve, daemon=True).start()
    return int(listening.getsockname()[1])


def test_a_round_trip_passes_over_the_brokers_own_pings() -> None:
    def answers(connection: socket.socket) -> None:
        connection.recv(len(roundtrip.connect()))
        connection.sendall(CONNECTED)
        for _ in range(SAMPLES):
            connection.recv(len(roundtrip.ping()))
            connection.sendall(roundtrip.ping() + PONG)

    assert 0 < ping_rtt_ms("127.0.0.1", broker(answers)) < 1000


@pytest.mark.parametrize("answer", [b"", bytes.fromhex("0000000600000002080e"), b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_broker_that_does_not_answer_so_has_no_round_trip(answer: bytes) -> None:
    def answers(connection: socket.socket) -> None:
        connection.recv(len(roundtrip.connect()))
        connection.sendall(answer)

    with pytest.raises(BrokersFailedError, match=r"no round trip to 127\.0\.0\.1") as failed:
        ping_rtt_ms("127.0.0.1", broker(answers))
    assert failed.value.perhaps_late
