"""Load hosts whose clock steps, whose disk is full, that keep their journals to themselves: real Dask, real disks."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perfgate.host.journal import PREFIX
from perfgate.load.agent import Agent
from perfgate.load.history import OUTCOME, outcomes_path, read_journal
from perfgate.load.hosts import DaskTransport, dask_hosts
from perfgate.load.journaled import JournaledGenerators
from perfgate.load.processes import Generators
from perfgate.measure.host_validity import host_flaws
from perfgate.model.load import LoadError
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions, LibrdkafkaDriver
from tests.harness.build.generators import SPEC, observer
from tests.harness.host.test_environment import FOLLOWS
from tests.harness.load.fake_generator import FILLS, JOURNALS, STAYS
from tests.harness.load.test_hosts import Ahead, generators, none_left

STEP_S = 0.25
TWO = replace(SPEC, scenario=replace(SPEC.scenario, producers=2))
DISK_KIB, FILES = 256, 20


class Faulty(Ahead):
    """An agent whose clock is ahead, as its generators' is. What else is wrong with it is a file in a folder.

    "steps": its clock goes further ahead once the window is known, its generators' does not. "forgets": its generators
    lose the last of their acknowledgements. One for all tests: a cluster takes seconds to start.
    """

    step_s = 0.0

    def now(self) -> float:
        return super().now() + self.step_s

    async def start(self, specs: Mapping[str, Mapping[str, object]], worker: Sequence[str]) -> None:
        lost = {"fake_lost": 1} if (Path(os.environ["FAULTS"]) / "forgets").exists() else {}
        await super().start({name: {**spec, **lost} for name, spec in specs.items()}, worker)

    async def end(self) -> None:
        await super().end()
        self.step_s = 0.0

    async def post(self, name: str, message: Mapping[str, object]) -> None:
        await super().post(name, message)
        if "window" in message and (Path(os.environ["FAULTS"]) / "steps").exists():
            self.step_s = STEP_S


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def hosts(folder: Path) -> Iterator[DaskTransport]:
    """Two hosts with a chronyc that says what chrony once said, and with folders for temporary files of their own."""
    (folder / "tmp").mkdir()
    (folder / "chronyc").write_text(f"#!/bin/sh\nprintf '{FOLLOWS}'\n")
    (folder / "chronyc").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        patch.setenv("TMPDIR", str(folder / "tmp"))
        patch.setenv("FAULTS", str(folder))
        with dask_hosts("local:2", worker=JOURNALS, agents=(Agent, Faulty)) as transport:
            yield transport


def journaled(transport: DaskTransport, folder: Path) -> JournaledGenerators:
    """Return a load that has begun and ended."""
    with JournaledGenerators(KafkaInstructions(), TWO, folder, observer([]), transport) as load:
        load.begin()
        load.finish()
    return load


def test_journals_come_from_all_hosts_in_the_runs_time(hosts: DaskTransport, folder: Path, tmp_path: Path) -> None:
    load = journaled(hosts, tmp_path)
    for number in (0, 1):
        rows = read_journal(outcomes_path(tmp_path, number), OUTCOME)
        assert rows["sequence"].tolist() == list(range(10))
        assert load.start < rows["at"].min() < rows["at"].max() < load.end + 5, "250 ms were taken off those of host-2"
    heard = [read_journal(outcomes_path(tmp_path, number), OUTCOME)["at"].min() for number in (0, 1)]
    assert abs(heard[1] - load.end) < 5
    assert [host.name for host in load.hosts] == ["host-1", "host-2"]
    assert abs(load.hosts[1].clock_ahead_ms - 250) <= load.hosts[1].clock_bound_ms
    assert not list((folder / "tmp").glob(f"{PREFIX}*"))


def test_a_journal_that_is_not_whole_names_its_host(hosts: DaskTransport, folder: Path, tmp_path: Path) -> None:
    (folder / "forgets").touch()
    try:
        with pytest.raises(LoadError, match="journal of producer-2 on the load host host-2 is not whole: 9 of 10 ack"):
            journaled(hosts, tmp_path)
    finally:
        (folder / "forgets").unlink()
    assert none_left(15)


def test_a_clock_that_steps_is_named_with_how_much(hosts: DaskTransport, folder: Path, tmp_path: Path) -> None:
    spec = replace(TWO, window_s=1.0)
    (folder / "steps").touch()
    try:
        result = LibrdkafkaDriver(hosts).run(spec, observer([]))
    finally:
        (folder / "steps").unlink()
    right, stepped = result.hosts
    assert right.clock_stepped_ms == 0.0
    assert stepped.clock_stepped_ms == pytest.approx(STEP_S * 1e3, abs=40)
    reasons = [flaw.text for flaw in host_flaws(spec.scenario.load, result, shares_cores=True) if not flaw.metrics]
    assert len(reasons) == 1
    assert reasons[0].startswith("the clock of the load host host-2 stepped by +2")
    said = result.hosts[0].time_service
    assert said is not None
    assert (said.stratum, said.synchronised) == (9, True)
    again = LibrdkafkaDriver(hosts).run(spec, observer([]))
    assert [host.clock_stepped_ms for host in again.hosts] == [0.0, 0.0]


def test_a_host_that_dies_with_its_journals_is_named(hosts: DaskTransport, folder: Path, tmp_path: Path) -> None:
    """The last one with these hosts: one that was lost stays lost."""
    assert not list((folder / "tmp").glob(f"{PREFIX}*")), "each round so far has deleted its own"
    with JournaledGenerators(KafkaInstructions(), TWO, tmp_path, observer([]), hosts) as load:
        load.begin()
        victim = generators()[1].parent()
        assert victim is not None
        victim.kill()
        began = time.monotonic()
        with pytest.raises(LoadError, match=r"the load host host-\d .* is lost"):
            load.finish()
        with pytest.raises(LoadError, match=r"the load host host-\d .* is lost"):
            load.collect()
        assert time.monotonic() - began < 30
    assert none_left(15)
    assert len(list((folder / "tmp").glob(f"{PREFIX}*"))) == 1, "who was killed left it, for the next agent to delete"


@dataclass
class Disk:
    """A small disk for the temporary files of agents that are started now, or what comes nearest without root."""

    folder: Path
    mounted: bool

    @property
    def words(self) -> str:
        """Return what the system says when a file does not fit."""
        return "No space left on device" if self.mounted else "File too large"

    def fill(self) -> None:
        """Leave no room for a single new file."""
        if not self.mounted:
            self.folder.chmod(0o500)
            return
        for number in range(FILES):
            with contextlib.suppress(OSError):
                (self.folder / f"other-{number}").touch()

    def free(self) -> None:
        """Make room again."""
        self.folder.chmod(0o700)
        for path in self.folder.glob("other-*"):
            path.unlink()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    (tmp_path / "disk").mkdir()
    options = f"size={DISK_KIB}k,nr_inodes={FILES}"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(tmp_path / "disk")]
    mounted = not os.geteuid() and not subprocess.run(command, capture_output=True, check=False).returncode
    if not mounted:
        monkeypatch.setenv("FAKE_FSIZE", str(DISK_KIB * 1024))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "disk"))
    yield Disk(tmp_path / "disk", mounted)
    if mounted:
        subprocess.run(["umount", "-l", tmp_path / "disk"], check=True)


def test_a_full_disk_is_named_with_its_host_and_leaves_nothing(disk: Disk, tmp_path: Path) -> None:
    with dask_hosts("local:1", worker=FILLS) as transport:
        began = time.monotonic()
        with JournaledGenerators(KafkaInstructions(), SPEC, tmp_path / "here", observer([]), transport) as load:
            with pytest.raises(LoadError, match=rf"{disk.words} \(on host-1\)"):
                load.begin()  # is over within a second, and most of that time the disk is full
            assert len(list(disk.folder.glob(f"{PREFIX}*"))) == 1
        assert time.monotonic() - began < 60
        assert none_left(15)
        assert not list(disk.folder.glob(f"{PREFIX}*"))

        disk.fill()
        with (
            pytest.raises(LoadError, match=r"load host host-1: its generators cannot be started: "),
            JournaledGenerators(KafkaInstructions(), SPEC, tmp_path / "here", observer([]), transport),
        ):
            pass
        assert none_left(15)

        disk.free()
        transport._worker = STAYS
        with Generators({"producer-1": {"history": "x"}}, transport) as running:
            running.wait_for("ready", 30, observer([]))
            assert len(generators()) == 1
    assert none_left(15)
