"""The round trip from a load host to Pulsar's brokers."""

import socket
from collections.abc import Iterator

import pytest

from perfgate.model.errors import BrokersFailedError
from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.clients import round_trip_ms


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "cannot_have", lambda: None)


@pytest.fixture
def ports() -> Iterator[list[int]]:
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=32) for _ in range(2)]
    yield [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize("end", ["", "/", "#cross-zone"])
def test_each_broker_of_the_url_is_connected_to(ports: list[int], end: str) -> None:
    url = "pulsar://" + ",".join(f"127.0.0.1:{port}" for port in ports) + end
    assert 0 < round_trip_ms({"bootstrap": url}) < 1_000


def test_a_broker_that_takes_no_connection_is_left_out_unless_none_does(ports: list[int]) -> None:
    """A run that was to go on with the other servers, as its start said, ended at the first look at the link."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert 0 < round_trip_ms({"bootstrap": f"pulsar+ssl://127.0.0.1:{port},127.0.0.1:{ports[0]}"}) < 1_000
    with pytest.raises(BrokersFailedError, match=f"no connection to 127.0.0.1:{port}: "):
        round_trip_ms({"bootstrap": f"pulsar+ssl://127.0.0.1:{port}"})


def test_a_load_host_compiles_its_client_before_its_first_round(
    ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(native, "cannot_have", lambda: compiled.append("once"))
    round_trip_ms({"bootstrap": f"pulsar://127.0.0.1:{ports[0]}"})
    assert compiled == ["once"]
