"""Processes of a cluster of the suite's own: watched, acted on, started again, and gone with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.host.java import AotCaches
from perfgate.host.waiting import NotYet, poll_until
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.systems.own_processes import OwnProcesses
from perfgate.systems.own_target import NodeFaults

WAITS = ["sleep", "60"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[OwnProcesses]:
    made = OwnProcesses(lambda node: f"node-{node}", tmp_path, data="nodes-", caches=AotCaches({}))
    yield made
    made.close()
    assert not made.data.exists()


def ended(processes: OwnProcesses, node: int) -> None:
    def ask() -> None:
        if processes.runs(node):
            raise NotYet("it runs")

    poll_until("it did not end", ask, within_s=30, every_s=0.01)


def test_a_node_that_has_ended_is_named_with_the_end_of_its_log(processes: OwnProcesses) -> None:
    processes.spawn(1, ["/bin/sh", "-c", "echo no such setting; exit 3"])
    processes.spawn(2, WAITS)
    ended(processes, 1)
    with pytest.raises(BrokersFailedError, match=r"node 1 \(pid \d+\) exited with code 3; .* log:\nno such setting$"):
        processes.check(())
    processes.check({1})
    assert processes.logged() == len("no such setting\n")
    assert processes.tail(1, 5) == "no such setting"


def test_a_node_that_a_full_disk_has_ended_has_not_failed(processes: OwnProcesses) -> None:
    """Others had filled the folder for temporary files, and the night was red: BROKEN."""
    stack = "echo java.io.IOException: No space left on device; seq 200; echo all log dirs have failed"
    processes.spawn(1, ["/bin/sh", "-c", f"{stack}; exit 1"])
    ended(processes, 1)
    with pytest.raises(TargetError, match=r"exited with code 1: the disk of /.* is full; end of its log:\n") as found:
        processes.check(())
    assert not isinstance(found.value, BrokersFailedError)


def test_a_node_that_a_fault_has_ended_is_not_missed_until_it_is_started_again(processes: OwnProcesses) -> None:
    faults = NodeFaults(processes.actions(lambda node: processes.spawn(node, WAITS)), processes.runs)
    faults.do("start", 1)
    faults.do("stop", 1)
    faults.wait_until_ended(1)
    processes.check(faults.absent)
    faults.do("start", 1)
    processes.check(faults.absent)
    assert processes.runs(1)
    processes.guard.kill(processes.pids[1])
    with pytest.raises(BrokersFailedError, match=r"node 1 \(pid \d+\) was killed by signal 9"):
        processes.check(faults.absent)
