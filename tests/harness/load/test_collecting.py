"""Journals of a load host: whole, in times of the run's clock, or refused by name; and the folder that they are in."""

import asyncio
import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from perfgate.host.clocks import Estimate
from perfgate.host.journal import PREFIX, LockedFolder, delete_left_over
from perfgate.load import journaled
from perfgate.load.agent import Agent
from perfgate.load.history import (
    ACCEPT,
    AS_THERE,
    CHUNK_BYTES,
    OUTCOME,
    RECEIPT,
    SEND,
    HostJournals,
    Journal,
    Rows,
    read_journal,
    receipts_path,
)
from perfgate.load.instructions import Requests
from perfgate.load.journaled import load_flaws, not_whole, read_everything
from perfgate.load.transport import LocalTransport
from perfgate.model import Load
from perfgate.model.load import LoadError, LoadSpec, LogUnreadError, Progress
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from tests.harness.build import scenario
from tests.harness.build.clock import Clock
from tests.harness.build.generators import SPEC, TALK, observer

AHEAD = Estimate(at=100.0, offset=50.0, bound=0.001)
LATER = Estimate(at=200.0, offset=50.2, bound=0.001)
NAME = "producer-0.sends"
READ = {"corrupt": 0, "foreign": 0, "missed": 0}
PACED = replace(scenario(), load=Load(kind="paced", rate=100.0))


class WithFolder(Agent):
    """An agent that has its folder already, as it has while its generators run."""

    def __init__(self, folder: LockedFolder) -> None:
        super().__init__()
        self._folder = folder


class GivesNothing(WithFolder):
    async def read(self, name: str, begin: int, count: int) -> bytes:
        return b""


class SaysOtherName(WithFolder):
    async def written(self) -> dict[str, int]:
        return {"../producer-0.sends": 24}


@pytest.fixture
def own(temporary_files: Path) -> Iterator[LockedFolder]:
    folder = LockedFolder()
    yield folder
    folder.delete()
    assert not list(temporary_files.glob(f"{PREFIX}*"))


def journals(agent: Agent, clock: Callable[[], float] = time.monotonic) -> HostJournals:
    return HostJournals("load-1", lambda method, *args: asyncio.run(getattr(agent, method)(*args)), clock)


def wrote(own: LockedFolder, *moments: float) -> None:
    journal = Journal(str(own.path / NAME))
    journal.write(np.array([(at, 7, 1, 0) for at in moments], SEND))
    journal.close()


def test_all_of_it_comes_in_the_runs_time_as_often_as_it_is_asked_for(own: LockedFolder, tmp_path: Path) -> None:
    """The host's clock is ahead by 50 s, and gains 0.2 s in the 100 s of the round; a chunk is no whole row."""
    assert CHUNK_BYTES % SEND.itemsize
    many = CHUNK_BYTES // SEND.itemsize + 10
    there, here = journals(WithFolder(own)), tmp_path / "here"
    wrote(own, *[150.0] * many, 200.1)
    there.bring(here, AHEAD, LATER)
    wrote(own, 250.2)
    there.bring(here, AHEAD, LATER)
    rows = read_journal(here / NAME, SEND)
    assert rows["at"] == pytest.approx(np.array([100.0] * many + [150.0, 200.0]), abs=1e-3)
    assert set(rows["first"]) == {7}


def cut(own: LockedFolder) -> None:
    (own.path / NAME).write_bytes(b"1234")


@pytest.mark.parametrize(
    ("agent", "harm", "words"),
    [
        (WithFolder, lambda own: (own.path / NAME).unlink(), r"load-1 lost 48 bytes of producer-0\.sends"),
        (WithFolder, cut, r"load-1 lost 44 bytes of producer-0\.sends"),
        (GivesNothing, lambda own: wrote(own, 160.0), r"load-1 gave 48 of 72 bytes of producer-0\.sends"),
        (SaysOtherName, lambda own: None, r"load-1 has written '\.\./producer-0\.sends', which is no journal"),
    ],
    ids=["gone", "cut", "gives-nothing", "other-name"],
)
def test_what_is_missing_is_told_with_the_host(
    agent: type[WithFolder], harm: Callable[[LockedFolder], None], words: str, own: LockedFolder, tmp_path: Path
) -> None:
    wrote(own, 150.0, 151.0)
    there = journals(WithFolder(own))
    there.bring(tmp_path / "here", AHEAD, LATER)
    there._ask = lambda method, *args: asyncio.run(getattr(agent(own), method)(*args))
    harm(own)
    with pytest.raises(LoadError, match=words):
        there.bring(tmp_path / "here", AHEAD, LATER)


class GivesLittle(WithFolder):
    """One that takes 10 s to read a row."""

    def __init__(self, folder: LockedFolder, clock: Clock) -> None:
        super().__init__(folder)
        self._clock = clock

    async def read(self, name: str, begin: int, count: int) -> bytes:
        self._clock.sleep(10.0)
        return await super().read(name, begin, min(count, SEND.itemsize))


@pytest.mark.parametrize("rows", [4, 5])
def test_a_host_that_is_too_slow_is_not_waited_for(rows: int, own: LockedFolder, tmp_path: Path) -> None:
    """For so few bytes it has 30 s before it is asked for the last of them."""
    wrote(own, *[150.0] * rows)
    clock = Clock()
    there = journals(GivesLittle(own, clock), clock.monotonic)
    if rows == 4:
        there.bring(tmp_path / "here", AHEAD, LATER)
        return
    with pytest.raises(LoadError, match=r"load-1 is too slow: 96 of 120 bytes of producer-0\.sends came"):
        there.bring(tmp_path / "here", AHEAD, LATER)


def test_a_disk_of_the_run_that_is_full_is_told_with_the_host(own: LockedFolder, tmp_path: Path) -> None:
    there = tmp_path / "here" / AS_THERE / "of-load-1"
    there.mkdir(parents=True)
    (there / NAME).symlink_to("/dev/full")
    wrote(own, 150.0)
    words = "the journals of the load host load-1 cannot be kept here: .*No space left on device"
    with pytest.raises(LoadError, match=words):
        journals(WithFolder(own)).bring(tmp_path / "here", AHEAD, LATER)


def test_no_other_file_of_the_host_is_given(own: LockedFolder) -> None:
    for agent, name in ((WithFolder(own), "../../etc/passwd"), (WithFolder(own), "gone.sends"), (Agent(), NAME)):
        with pytest.raises(LoadError, match=name):
            asyncio.run(agent.read(name, 0, 10))


def test_what_an_agent_left_that_was_killed_is_deleted_by_the_next_and_a_living_ones_is_not(
    own: LockedFolder, tmp_path: Path
) -> None:
    wrote(own, 1.0)
    dies = (
        "import os, tempfile; from perfgate.host.journal import LockedFolder\n"
        "folder = LockedFolder(); (folder.path / 'x').touch(); print(folder.path, flush=True); os.kill(os.getpid(), 9)"
    )
    env = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    dead = subprocess.run(
        [sys.executable, "-c", dies], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    left = Path(dead.stdout.strip())
    assert (left / "x").exists(), dead.stderr
    delete_left_over()
    assert not left.exists()
    assert (own.path / NAME).exists()


@pytest.mark.parametrize("call", ["tempfile.mkdtemp", "os.open"])
def test_a_new_folder_that_another_agent_takes_for_left_over_is_made_anew(
    call: str, own: LockedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two agents of one machine start side by side: the other one looks before this one holds its lock."""
    module, _, name = call.partition(".")
    function = getattr(importlib.import_module(module), name)

    def then_deleted(*args: Any, **named: Any) -> object:
        patch.undo()
        found = function(*args, **named)
        delete_left_over()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(call, then_deleted)
        made = LockedFolder()
    assert made.path.exists()
    assert own.path.exists()
    made.delete()


@pytest.mark.usefixtures("temporary_files")
def test_a_file_system_without_locks_has_folders_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(37, "No locks available")))
    made = LockedFolder()
    delete_left_over()
    assert made.path.exists()
    for _ in range(2):
        made.delete()
    assert not made.path.exists()


def test_a_journal_that_does_not_fit_on_the_disk_is_an_error_not_a_shorter_journal(tmp_path: Path) -> None:
    """The file system takes what there is room for and says so in the number alone; the next write would fail."""
    writes = (
        "import resource, sys; import numpy as np; from perfgate.load.history import SEND, Journal\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "Journal(sys.argv[1]).write(np.zeros(100, SEND))"
    )
    env = {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", writes, str(tmp_path / NAME)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert "OSError: [Errno 27] File too large" in done.stderr


def row(kind: "np.dtype[np.void]", **values: int) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    rows = np.zeros(1, kind)
    for name, value in values.items():
        rows[name] = value
    return rows


def test_a_journal_that_lacks_something_of_what_its_process_counted_is_not_whole(tmp_path: Path) -> None:
    producer = {"role": "produce", "first": 2, "clients": 1}
    for ending, rows in {
        "sends": [row(SEND, count=3), row(SEND, count=1)],
        "outcomes": [row(OUTCOME), row(OUTCOME), row(OUTCOME, error=-192)],
    }.items():
        (tmp_path / f"producer-2.{ending}").write_bytes(b"".join(one.tobytes() for one in rows))
    assert not_whole(tmp_path, producer, {"attempted": 4, "acked": 2}) == ""
    assert not_whole(tmp_path, producer, {"attempted": 4, "acked": 3}) == "2 of 3 acknowledgements are there"
    assert not_whole(tmp_path, producer, {"attempted": 5, "acked": 2}) == "4 of 5 sends are there"
    consumer = {"role": "consume", "first": 0, "clients": 2}
    for number in (0, 1):
        (tmp_path / f"consumer-{number}.receipts").write_bytes(row(RECEIPT).tobytes())
    assert not_whole(tmp_path, consumer, {"read": 3, "foreign": 1}) == ""
    assert not_whole(tmp_path, consumer, {"read": 3, "foreign": 0}) == "2 of 3 receipts are there"
    (tmp_path / "consumer-1.accepts").write_bytes(b"".join(row(ACCEPT, error=e).tobytes() for e in (0, 122)))
    member = {"read": 2, "foreign": 0}
    assert not_whole(tmp_path, consumer, {**member, "accepts": 2}) == "", "a refusal is an answer too"
    assert not_whole(tmp_path, consumer, {**member, "accepts": 3}) == "2 of 3 answers to acceptances are there"
    (tmp_path / "consumer-1.accepts").unlink()
    assert not_whole(tmp_path, consumer, {**member, "accepts": 2}) == "0 of 2 answers to acceptances are there"
    (tmp_path / "consumer-1.receipts").unlink()
    assert not_whole(tmp_path, consumer, {"read": 2, "foreign": 0}) == "1 of 2 receipts are there"


def test_a_process_that_heard_of_the_end_too_late_does_not_make_up_for_one_that_was_behind() -> None:
    """Both were added up: 5 too few and 5 too many came to nothing; too many alone were "-5 never handed over"."""
    late, early = ({"pushback_s": 0.0, "unsent": unsent} for unsent in (5, -5))
    found = load_flaws(KafkaInstructions(), PACED, [late, early], [])
    assert list(dict.fromkeys(doubt.text for doubt in found)) == [
        "5 records of the schedule were never handed over",
        "5 records were sent after the load's end, of which a generator process heard too late",
    ]
    assert found[0].offset == pytest.approx(5 * 2 / 100), "for so long one of two processes sent nothing"
    assert load_flaws(KafkaInstructions(), PACED, [{"pushback_s": 0.0, "unsent": 0}], [READ]) == []
    (short,) = load_flaws(KafkaInstructions(), PACED, [{"pushback_s": 0.0, "unsent": 0}], [{**READ, "missed": 7}])
    assert short.text == "the consumers were given 7 records less than the log holds"


READS_ALL = (
    TALK[: TALK.index("for i in")]
    + """
for attempted in (3, 4):
    say(event="progress", at=start, attempted=attempted, done=3, failed=0, last_error="")
    time.sleep(0.5)
time.sleep(60)
"""
)
"""A consumer that is given as many records as there are, and then another."""


@pytest.mark.parametrize(
    ("followed", "offsets", "short"),
    [
        (True, [0, 1, 2], ""),
        (True, [0, 2, 2], ""),  # compacted, or given twice: it came to the end
        (True, [0, 1], "partition 0 2 of 3"),
        (False, [1 << 40, 5 << 40, 9 << 40], ""),
        (False, [1 << 40, 5 << 40, 5 << 40], "partition 0 2 of 3"),
        (False, [1 << 40, 5 << 40, 5 << 40, 9 << 40], ""),  # the last comes after one that was given twice
    ],
)
def test_the_final_read_is_whole_where_it_has_come_to_the_end_or_where_offsets_have_holes_has_all(
    followed: bool, offsets: list[int], short: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journaled, "LEAST_READ_S", 3.0)
    rows = np.zeros(len(offsets), RECEIPT)
    rows["offset"] = offsets

    def write(some: Rows) -> None:
        journal = Journal(str(receipts_path(tmp_path, 0)))
        journal.write(some)
        journal.close()

    def more(_phase: str, last: Progress | None) -> None:
        if last and len(read_journal(receipts_path(tmp_path, 0), RECEIPT)) < len(offsets):
            write(rows[3:])

    write(rows[:3])
    reads = LocalTransport(("-c", READS_ALL))

    class Holes(KafkaInstructions):
        def consumers_of(self, spec: LoadSpec) -> Requests:
            return {name: {**told, "followed": followed} for name, told in super().consumers_of(spec).items()}

    def found() -> int:
        return len(read_everything(Holes(), SPEC, tmp_path, [3], replace(observer([]), progress=more), reads))

    if not short:
        assert found() == len(offsets)
        return
    with pytest.raises(LogUnreadError, match=f"did not reach the end of the log within .* s: {short}$"):
        found()
