"""The use of a machine between two looks: against the kernel's own counters, and with known ones."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.host.machine_use import Look, boot_id, look, periods_of, segments_of, speeds, use

BEFORE = Look(at=10.0, cores=[5.0, 7.0], bytes_={"eth0": (0, 0), "eth1": (0, 0), "lo": (0, 0)}, segments=(10, 1))
AFTER = Look(
    at=12.0,
    cores=[5.5, 8.9],
    bytes_={"eth0": (2 << 20, 0), "eth1": (0, 8 << 20), "lo": (9 << 20, 9 << 20), "new": (1, 1)},
    segments=(110, 5),
)


def test_two_looks_make_shares_and_rates() -> None:
    found = use(BEFORE, AFTER, {"eth0": 2 * 2**20, "eth1": 5 * 2**20, "lo": 1.0}, with_run=True)
    assert (found.cores, found.with_run, found.network) == (2, True, "eth1")
    assert (found.cpu_share, found.busiest_core_share) == pytest.approx((0.6, 0.95))
    assert found.network_share == pytest.approx(0.8)
    assert (found.sent_mib_per_s, found.received_mib_per_s) == pytest.approx((1.0, 4.0)), "without loopback"
    assert (found.tcp_sent, found.tcp_sent_again) == (100, 4)


def test_interfaces_that_state_no_speed_have_no_share() -> None:
    assert (use(BEFORE, AFTER, {}, with_run=False).network, use(BEFORE, AFTER, {}, with_run=False).network_share) == (
        "",
        None,
    )


def test_a_quota_that_held_the_container_back_is_told() -> None:
    """CPU as a whole is the node's, of which a container with a quota leaves most."""
    stats = "nr_periods 10\nnr_throttled 4\n", "usage_usec 9\nnr_periods 30\nnr_throttled 9\n", "usage_usec 9\n"
    found = [periods_of(text) for text in stats]
    assert found == [(10, 4), (30, 9), (0, 0)]
    before, after = replace(BEFORE, periods=found[0]), replace(AFTER, periods=found[1])
    assert use(before, after, {}, with_run=False).throttled_share == 0.25
    assert use(BEFORE, AFTER, {}, with_run=False).throttled_share is None


def test_a_processor_that_came_or_went_is_told() -> None:
    with pytest.raises(ValueError, match="shorter"):
        use(BEFORE, replace(AFTER, cores=[6.0]), {}, with_run=False)


def test_this_machine_is_seen_working() -> None:
    before = look()
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        pass
    found = use(before, look(), speeds(), with_run=True)
    assert found.cores == os.cpu_count()
    assert found.busiest_core_share > 0.3 / found.cores, "one of them was busy, whichever; jiffies are coarse"
    assert found.cpu_share <= found.busiest_core_share


@pytest.mark.skipif(not Path("/proc/net/snmp").exists(), reason="not Linux")
def test_segments_are_read_by_their_names() -> None:
    text = Path("/proc/net/snmp").read_text()
    assert min(segments_of(text)) >= 0
    assert segments_of("Ip: A B\nIp: 1 2\nTcp: RetransSegs InSegs OutSegs\nTcp: 3 4 5\n") == (5, 3)
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
