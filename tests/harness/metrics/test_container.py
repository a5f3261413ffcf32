"""Counters of containers, from the kernel and from a Docker engine elsewhere: which moment they are of."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.metrics.container import clock_ahead_s, control_group, dated, usage_of
from perfgate.metrics.usage import LATE_S, LATE_SHARE, CounterSampler, Usage, read_late

WINDOW_S = 3.0
ID = "c" * 64
FILES = {
    1: {
        "cpuacct/docker/ID/cpuacct.usage": "2500000000\n",
        "memory/docker/ID/memory.usage_in_bytes": "1000\n",
        "memory/docker/ID/memory.stat": "inactive_file 1\ntotal_inactive_file 400\n",
    },
    2: {
        "unified/system.slice/docker-ID.scope/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
        "unified/system.slice/docker-ID.scope/memory.current": "1000\n",
        "unified/system.slice/docker-ID.scope/memory.stat": "anon 5\ninactive_file 400\n",
        "unified/system.slice/docker-ID.scope/io.stat": "8:0 rbytes=5 wbytes=7 rios=1\n8:16 rbytes=0 wbytes=3 rios=0\n",
    },
}
GROUPS = {
    1: "4:memory:/docker/ID\n7:blkio:/docker/ID\n2:cpu,cpuacct:/docker/ID\n0::/docker/ID\n",
    2: "0::/system.slice/docker-ID.scope\n",
}


def proc_of(folder: Path, version: int) -> Path:
    """Return a folder like /proc, of a machine where process 7 is in such a group."""
    for name, text in FILES[version].items():
        path = folder / "fs" / name.replace("ID", ID)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kinds = {1: (("cpuacct", "cgroup"), ("memory", "cgroup"), ("blkio", "cgroup"), ("unified", "cgroup2")), 2: ()}
    mounts = [
        f"x {folder}/fs/{name} {kind} rw,{name} 0 0" for name, kind in kinds[version] or (("unified", "cgroup2"),)
    ]
    (folder / "proc" / "7").mkdir(parents=True)
    (folder / "proc" / "7" / "io").write_text("rchar: 99\nwrite_bytes: 10\n")
    (folder / "proc" / "self").mkdir()
    (folder / "proc" / "self" / "mounts").write_text("\n".join(mounts))
    (folder / "proc" / "7" / "cgroup").write_text(GROUPS[version].replace("ID", ID))
    return folder / "proc"


@pytest.mark.parametrize("version", [1, 2])
def test_the_kernel_tells_of_a_container_at_once(tmp_path: Path, version: int) -> None:
    group = control_group(7, ID, proc_of(tmp_path, version))
    assert group is not None
    assert group.version == version
    found = group.usage(whole=False)
    assert found is not None
    assert (found.cpu_s, found.rss_bytes, found.written_bytes) == (2.5, 600, 10)
    if version == 1:  # its own counters of the disk leave out what the page cache writes later
        (tmp_path / "proc" / "7" / "io").unlink()
        hidden = group.usage(whole=False)
        assert hidden is not None
        assert hidden.written_bytes is None, "unavailable, never 0"


@pytest.mark.parametrize("version", [1, 2])
def test_another_machines_process_and_a_group_that_is_gone_tell_nothing(tmp_path: Path, version: int) -> None:
    proc = proc_of(tmp_path, version)
    group = control_group(7, ID, proc)
    assert group is not None
    assert control_group(8, ID, proc) is None
    assert control_group(7, "d" * 64, proc) is None, "the same number on another machine"
    for path in (tmp_path / "fs").rglob("*"):
        if path.is_file():
            path.unlink()
    assert group.usage() is None
    assert control_group(7, ID, proc) is None


@given(st.floats(0.5, 60), st.floats(0, 10))
def test_what_was_read_too_late_is_of_no_window(window_s: float, late_s: float) -> None:
    """An engine took a second for each of three brokers: of the third one a window told the pause after it."""

    def looks(at: float) -> dict[int, Usage]:
        return {1: Usage(at=at, cpu_s=0, rss_bytes=0, written_bytes=0)}

    told = read_late([(looks(5.0), looks(5.0 + window_s + late_s))], [(5.0, 5.0 + window_s)])
    assert bool(told) is (5.0 + window_s + late_s - (5.0 + window_s) > max(LATE_SHARE * (5.0 + window_s - 5.0), LATE_S))


def test_a_source_that_is_late_is_unavailable_and_says_so() -> None:
    clock = iter((time.monotonic() + 1, time.monotonic() + 2))

    def late() -> dict[int, Usage]:
        return {1: Usage(at=time.monotonic() + 1, cpu_s=0, rss_bytes=0, written_bytes=0)}

    # On a busy machine 0.1 to 0.2 s went by before the kernel was asked, and a third of the turns had no CPU.
    here = CounterSampler(lambda: {1: replace(late()[1], at=next(clock), cpu_s=1.0)}, [1], why_missing="")
    here.edge()
    here.edge()
    assert here.metrics(1.0, [0])["broker_cpu_cores.sum"] == 0.0
    assert not here.unavailable
    sampler = CounterSampler(late, [1], why_missing="", elsewhere=True)
    sampler.edge()
    sampler.edge()
    assert sampler.metrics(1.0, [0]) == {}
    assert sampler.unavailable.startswith("counters were read 1.0 s after an edge of a window")
    asked_late = CounterSampler(
        lambda: {1: replace(late()[1], at=time.monotonic())}, [1], why_missing="", elsewhere=True
    )
    asked_late.edge(time.monotonic() - 2)
    asked_late.edge(time.monotonic() - 1)
    assert asked_late.metrics(1.0, [0]) == {}
    assert asked_late.unavailable.startswith("counters were read 2.0 s after an edge of a window")


def written(moment: float, zone: timezone = UTC) -> str:
    """Return a moment as an engine writes it, in nanoseconds."""
    text = datetime.fromtimestamp(moment, zone).isoformat(timespec="microseconds")
    return (text[:26] + "789" + text[26:]).replace("+00:00", "Z")


def told(asked: float, read: float, off_s: float) -> Usage:
    """Return what an engine whose clock is off tells that was asked at `asked` and looked at `read`."""
    cpu = {"cpu_usage": {"total_usage": int(2e9 * min(read, WINDOW_S))}}
    stats = {"read": written(read + off_s), "cpu_stats": cpu, "memory_stats": {"usage": 0}}
    return dated(usage_of(stats), asked, read + 0.02)


@pytest.mark.parametrize(
    ("off_s", "late_s", "cores"),
    [(0, 0, 2.0), (0, 1, None), (-1.1, 1, None), (-2, 1, None), (0.5, 0, 2.0), (-0.5, 0, 2.0)],
)
def test_an_engines_clock_that_is_off_hides_no_late_counters(off_s: float, late_s: float, cores: float | None) -> None:
    """Two cores in a window and nothing after it: read a second late by a clock a second behind they were 1.3."""
    sampler = CounterSampler(dict, [1], why_missing="", elsewhere=True)
    for edge in (0.0, WINDOW_S):
        sampler._edges_at.append(edge)
        sampler._looks.append({1: told(edge, edge + late_s, off_s)})
    found = sampler.metrics(1000.0, [-1]).get("broker_cpu_cores.1")
    assert found == (cores and pytest.approx(cores, rel=0.02))
    assert bool(sampler.unavailable) is (cores is None)


@pytest.mark.parametrize("off_s", [0.0, 5.0, -7200.0])
def test_how_far_an_engines_clock_is_off_is_measured(off_s: float) -> None:
    zone = timezone(timedelta(hours=2))
    engine = Mock(info=lambda: {"SystemTime": written(time.time() + off_s, zone)})
    assert clock_ahead_s(engine) == pytest.approx(off_s, abs=1.0)
