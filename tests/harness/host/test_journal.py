"""The laws of the journal: whenever a process is killed, what it has done is undone, or still noted."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.host.journal import Journal, Machine, Notes, claimed, journals, lock_of
from perfgate.model.errors import ConfigurationError
from tests.harness.run_gate import HANG_BOUND_S, ROOT

SUFFIX = ".jsonl"
OWNER = """
import os, signal, sys, time
from pathlib import Path
from perfgate.host.journal import Journal
journal = Journal(Path(sys.argv[1]), "r", ".jsonl", {"run": "r"})
journal.note({"did": 1})
print("there", flush=True)
time.sleep(600)
"""
NO_ROOM = """
import resource, sys
from pathlib import Path
from perfgate.host.journal import Journal
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
Journal(Path(sys.argv[1]), "r", ".jsonl", {"run": "r"})
"""
UNDOES = """
import os, sys, time
from pathlib import Path
from perfgate.host.journal import claimed, journals
folder, log = Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while paths := journals(folder, ".jsonl"):
    for path in paths:
        with claimed(path) as notes:
            if notes is not None:
                os.write(log, f"begin {path.name}\\n".encode())
                time.sleep(0.05)
                os.write(log, f"end {path.name}\\n".encode())
                notes.remove()
"""


class KilledError(BaseException):
    """Ends what runs as a kill does: nothing that it would still do is done."""


def killed_at(step: int) -> Callable[[], None]:
    """Return what is called at each point where a process may be killed, and kills it at the n-th."""
    steps = iter(range(1_000))

    def at() -> None:
        if next(steps) == step:
            raise KilledError

    return at


def outstanding(notes: Notes) -> list[int]:
    """Return what the notes say that was done and is not undone, in its order."""
    left: list[int] = []
    for entry in notes.entries:
        left += [entry["did"]] if "did" in entry else []
        left = [number for number in left if number != entry.get("undone")]
    return left


def run(folder: Path, world: list[int], undone_itself: set[int], kill: Callable[[], None]) -> None:
    """Do three things, each noted before, and undo some of them; a kill as one is noted leaves half of a line."""
    journal = Journal(folder, "r", SUFFIX, {"run": "r"})
    try:
        for number in (1, 2, 3):
            try:
                kill()
            except KilledError:
                journal.file.write('{"did": ')
                raise
            journal.note({"did": number})
            kill()
            world.append(number)
            kill()
        for number in sorted(undone_itself, reverse=True):
            world.remove(number)
            kill()
            journal.note({"undone": number})
            kill()
        journal.close(undone=not world)
    finally:
        journal.file.close()  # as the kernel does


def undo(folder: Path, world: list[int], undone: list[int], kill: Callable[[], None]) -> None:
    for path in journals(folder, SUFFIX):
        with claimed(path) as notes:
            assert notes is not None
            for number in reversed(outstanding(notes)):
                kill()
                undone.append(number)
                if number in world:
                    world.remove(number)
                kill()
                notes.add({"undone": number})
            kill()
            notes.remove()


@given(
    undone_itself=st.sets(st.sampled_from([1, 2, 3])),
    kill=st.integers(0, 20),
    kills_of_the_next=st.lists(st.integers(0, 10), max_size=3),
)
def test_what_a_killed_process_did_is_undone_or_still_noted(
    tmp_path_factory: pytest.TempPathFactory, undone_itself: set[int], kill: int, kills_of_the_next: list[int]
) -> None:
    folder, world, undone = tmp_path_factory.mktemp("j"), list[int](), list[int]()

    def survives(does: Callable[[], None]) -> None:
        with suppress(KilledError):
            does()
        noted = set[int]()
        for path in journals(folder, SUFFIX):
            with claimed(path) as notes:
                assert notes is not None, "the lock ends with its process"
                noted.update(outstanding(notes))
        assert set(world) <= noted

    survives(lambda: run(folder, world, undone_itself, killed_at(kill)))
    done = list(world)
    for each in kills_of_the_next:
        survives(lambda at=each: undo(folder, world, undone, killed_at(at)))  # type: ignore[misc]
    undo(folder, world, undone, lambda: None)
    assert not world
    assert set(done) <= set(undone)
    assert [undone.index(number) for number in reversed(done)] == sorted(undone.index(number) for number in done)
    assert list(folder.iterdir()) == []


def test_nothing_of_a_living_owner_is_undone_until_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "there\n"
        (path,) = journals(tmp_path, SUFFIX)
        with claimed(path) as notes:
            assert notes is None
        owner.kill()
    assert owner.returncode == -signal.SIGKILL
    with claimed(path) as notes:
        assert notes is not None
        assert outstanding(notes) == [1]
        assert Machine.of(notes.entries[0]).locks_count(notes.here)


def test_two_processes_do_not_undo_the_same(tmp_path: Path) -> None:
    folder, log = tmp_path / "j", tmp_path / "log"
    for number in range(5):
        Journal(folder, f"r{number}", SUFFIX, {"run": f"r{number}"}).close(undone=False)
    command = [sys.executable, "-c", UNDOES, str(folder), str(log)]
    undoers = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [each.wait(HANG_BOUND_S) for each in undoers] == [0, 0, 0]
    lines = log.read_text().splitlines()
    for number in range(5):
        of_one = [line.split()[0] for line in lines if line.endswith(f"r{number}.jsonl")]
        assert of_one == ["begin", "end"], "once, and by one process"


def test_what_is_undone_just_before_its_lock_is_had_is_not_undone_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, "r", SUFFIX, {"run": "r"})
    journal.close(undone=False)
    flock = fcntl.flock

    def after_the_other(file: int, how: int) -> None:
        journal.path.unlink(missing_ok=True)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", after_the_other)
    with claimed(journal.path) as notes:
        assert notes is None


def test_a_journal_is_seen_once_it_is_locked_and_says_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[Path]] = []
    fsync = os.fsync

    def looked(file: int) -> None:
        seen.append(journals(tmp_path, SUFFIX))
        fsync(file)

    monkeypatch.setattr(os, "fsync", looked)
    journal = Journal(tmp_path, "r", SUFFIX, {"run": "r"})
    assert seen == [[]]
    assert journals(tmp_path, SUFFIX) == [journal.path]
    journal.close(undone=True)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_leaves_no_journal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_ROOM, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_BOUND_S)
    assert re.search(r"TargetError: .*/r\.jsonl: File too large", done.stderr), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_notes_that_cannot_be_removed_are_named_and_no_longer_locked(tmp_path: Path) -> None:
    """A file system that had become read-only was a traceback, and what had been measured was lost."""
    journal = Journal(tmp_path, "r", SUFFIX, {"run": "r"})
    journal.path.unlink()
    journal.path.mkdir()  # a folder is not removed as a file is, whoever asks
    assert f"remove {journal.path} once that works" in journal.close(undone=True)
    assert journal.file.closed
    assert journal.close(undone=True) == ""


def test_what_an_earlier_journal_left_stays_with_its_name(tmp_path: Path) -> None:
    Journal(tmp_path, "r", SUFFIX, {"run": "r"}).close(undone=False)
    later = Journal(tmp_path, "r", SUFFIX, {"run": "r"})
    later.close(undone=True)
    later.close(undone=True)
    assert [path.name for path in journals(tmp_path, SUFFIX)] == ["r.jsonl"]


def test_a_closed_journal_removes_no_other_one_of_its_name(tmp_path: Path) -> None:
    first = Journal(tmp_path, "r", SUFFIX, {"run": "r"})
    first.close(undone=True)
    second = Journal(tmp_path, "r", SUFFIX, {"run": "r"})
    first.close(undone=True)
    assert journals(tmp_path, SUFFIX) == [second.path]
    second.close(undone=True)


def test_a_link_and_another_users_folder_are_not_acted_upon(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    Journal(tmp_path / "there", "r", SUFFIX, {"run": "r"}).close(undone=False)
    (tmp_path / "r.jsonl").symlink_to(tmp_path / "there" / "r.jsonl")
    with claimed(tmp_path / "r.jsonl") as notes:
        assert notes is None
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with pytest.raises(ConfigurationError, match="is a link or another user's"):
        journals(tmp_path / "link", SUFFIX)


def test_a_lock_is_one_processs_until_it_is_closed(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, "c.lock")
    assert lock is not None
    assert lock_of(tmp_path, "c.lock") is None
    lock.close()
    again = lock_of(tmp_path, "c.lock")
    assert again is not None
    again.close()


RECORDS = ("perfgate/fixtures/recorded.py", "perfgate/report/history.py")


def test_no_other_module_has_locks_of_its_own() -> None:
    """The first program on a load host has nothing of this package; the lock of a run's folder says that it goes on.

    Runs wait for one another to write to their history.
    """
    others = {
        str(path.relative_to(ROOT)) for path in (ROOT / "perfgate").rglob("*.py") if "import fcntl" in path.read_text()
    }
    assert others == {"perfgate/host/journal.py", "perfgate/load/boot.py", *RECORDS}
