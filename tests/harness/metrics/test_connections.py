"""The kernel's counters of TCP connections: whose they are, and what a window's metrics make of them."""

import os
import socket
import subprocess
import sys

import pytest

from perfgate.metrics.process import process_sampler, traffic_of
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.samplers import Samplers
from perfgate.metrics.usage import CounterSampler, Usage, missing_figures
from perfgate.model import MIB
from tests.harness.build.prometheus import scraping

TALKER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as there:
    there.recv(1)
    for _ in range(4):
        there.sendall(bytes(1 << 20))
    while there.recv(1 << 16):
        pass
"""


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_kernel_tells_what_each_end_of_a_connection_received_and_sent(
    family: socket.AddressFamily, host: str
) -> None:
    with (
        socket.create_server((host, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as there,
    ):
        here, _ = server.accept()
        with here:
            there.sendall(bytes(100_000))
            left = 100_000
            while left:
                left -= len(here.recv(left))
            here.sendall(b"seen")
            there.recv(4)  # an acknowledgement of all that was sent comes with it
            ends = traffic_of([os.getpid()])[os.getpid()]
            received, sent = ends[os.fstat(here.fileno()).st_ino]
            # The handshake counts as a byte of what was acknowledged.
            assert received == 100_000
            assert ends[os.fstat(there.fileno()).st_ino][1] - 100_000 in (0, 1)
            assert sent in (0, 1, 4, 5), "acknowledged at once, or with the next packet"
            assert os.fstat(server.fileno()).st_ino not in ends


def test_a_process_that_is_gone_has_no_traffic() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert traffic_of([process.pid]) == {}


def test_the_traffic_of_a_process_is_among_its_metrics_and_no_other_ones() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            subprocess.Popen([sys.executable, "-c", TALKER, str(port)]) as talker,
            subprocess.Popen(["sleep", "60"]) as other,
        ):
            here, _ = server.accept()
            sampler = process_sampler(lambda: {1: talker.pid, 2: other.pid})
            sampler.edge()
            here.sendall(b"!")
            left = 4 * MIB
            while left:
                left -= len(here.recv(min(left, 1 << 16)))
            sampler.edge()
            first, second = (look[1] for look in sampler._looks[-2:])
            metrics = sampler.metrics(1.0, [-1])
            here.close()
            other.kill()
    seconds = second.at - first.at
    # What the kernel has acknowledged for us a moment after we read it may not have come back yet.
    assert 3.0 <= metrics["broker_network_out_mib_per_s"] * seconds <= 4.001
    assert metrics["broker_network_in_mib_per_s"] * seconds * MIB == pytest.approx(1.0)
    assert missing_figures(metrics, sampler) == {}


def looks(at: float, traffic: dict[int, tuple[int, int]] | None) -> dict[int, Usage]:
    return {1: Usage(at=at, cpu_s=at, rss_bytes=MIB, written_bytes=0, traffic=traffic)}


def test_connections_that_begin_count_and_those_that_end_take_nothing_away() -> None:
    told = iter(
        [looks(0.0, {7: (MIB, 0), 8: (9 * MIB, 9 * MIB)}), looks(2.0, {7: (3 * MIB, MIB), 9: (2 * MIB, 3 * MIB)})]
    )
    sampler = CounterSampler(lambda: next(told), [1], why_missing="-")
    sampler.edge()
    sampler.edge()
    metrics = sampler.metrics(1024.0, [-1])
    assert (metrics["broker_network_in_mib_per_s"], metrics["broker_network_out_mib_per_s"]) == (2.0, 2.0)
    assert metrics["broker_network_in_bytes_per_record"] == 2048.0
    assert "broker_network_in_bytes_per_record" not in sampler.metrics(0.0, [-1]), "of no record it is not 0"


@pytest.mark.parametrize("blind", [0, 1])
def test_traffic_that_one_look_does_not_tell_is_unavailable_and_not_0(blind: int) -> None:
    told = iter([looks(float(n), None if n == blind else {7: (n, n)}) for n in range(2)])
    sampler = Samplers([CounterSampler(lambda: next(told), [1], why_missing="no counters")])
    sampler.edge()
    sampler.edge()
    metrics = sampler.metrics(1.0, [-1])
    assert not [name for name in metrics if "network" in name]
    assert missing_figures(metrics, sampler) == {"network": "no counters"}


def test_what_a_prometheus_does_not_tell_has_its_reason() -> None:
    asked = Samplers([PrometheusSampler(scraping(), {})])
    found = missing_figures({"broker_cpu_cores.sum": 1.0, "network_in_mib_per_s": 0.0}, asked)
    assert found == {"memory": PrometheusSampler.why_missing, "disk": PrometheusSampler.why_missing}
    asked.unavailable = "2 scrapes in a window of 3 s"
    found = missing_figures({}, asked)
    assert found["CPU"] == "2 scrapes in a window of 3 s"
    assert found["memory"] == PrometheusSampler.why_missing, "longer windows would not tell it either"
    nobody = Samplers((), "no [prometheus]")
    assert missing_figures({}, nobody) == dict.fromkeys(("CPU", "memory", "disk", "network"), "no [prometheus]")
