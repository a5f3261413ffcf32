"""Installations on a load host: those that nobody uses any more are deleted, those that somebody uses never are."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from perfgate.load.boot import UNFINISHED_S, UNUSED_S, hold, prune

WAITS = "import sys; print('here', flush=True); sys.stdin.read()"
HOLDS = f"""
import os, sys
from pathlib import Path
from perfgate.load.boot import hold
assert hold(Path(sys.argv[1]))
os.execv(sys.executable, [sys.executable, "-c", {WAITS!r}])
"""
"""Becomes another program, as the first program on a host becomes the agent."""


def made(cache: Path, name: str, age_s: float, *, whole: bool = True) -> Path:
    path = cache / name
    (path / ".venv" / "bin").mkdir(parents=True)
    (path / ".venv" / "bin" / "python").touch()
    if whole:
        (path / "complete").touch()
        os.utime(path / "complete", (time.time() - age_s,) * 2)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@contextmanager
def process(code: str, *arguments: object, cwd: Path | None = None) -> Iterator[None]:
    command, env = [sys.executable, "-c", code, *map(str, arguments)], {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=cwd) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        assert one.stdout.readline() == "here\n"
        yield
        one.stdin.close()


def key(number: int) -> str:
    return f"{number:016x}-x86_64"


def test_what_nobody_has_used_for_long_is_deleted_and_what_others_made_is_not(tmp_path: Path) -> None:
    own, fresh = made(tmp_path, key(0), 10 * UNUSED_S), made(tmp_path, key(1), UNUSED_S - 3600)
    made(tmp_path, key(2), UNUSED_S + 60)
    made(tmp_path, key(3), UNFINISHED_S + 60, whole=False)
    made(tmp_path, f"{key(4)}.k2j3", UNFINISHED_S + 60, whole=False)
    made(tmp_path, f"{key(5)}.gone-17", UNFINISHED_S + 60)
    begun = made(tmp_path, f"{key(6)}.x1y2", 60, whole=False)
    foreign = made(tmp_path, "notes", 10 * UNUSED_S)
    link = tmp_path / key(7)
    link.symlink_to(foreign)
    prune(tmp_path, own)
    assert sorted(tmp_path.iterdir()) == sorted([own, fresh, begun, foreign, link])


def test_what_a_process_uses_stays_until_it_has_ended(tmp_path: Path) -> None:
    """One holds it through the program that it becomes, one of an older version only works in it."""
    own, held, entered = (made(tmp_path, key(number), 2 * UNUSED_S) for number in range(3))
    with process(HOLDS, held), process(WAITS, cwd=entered):
        prune(tmp_path, own)
        assert sorted(tmp_path.iterdir()) == [own, held, entered]
    prune(tmp_path, own)
    assert list(tmp_path.iterdir()) == [own]


def is_waited_for(path: Path) -> bool:
    """Return whether somebody waits for the lock of this folder; see proc_locks(5)."""
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return str(path.stat().st_ino) in {fields[6].rpartition(":")[2] for fields in waiting}


def test_one_that_goes_while_it_is_looked_for_is_made_anew(tmp_path: Path) -> None:
    """Another run had the lock first: once it is had here the folder is not there any more."""
    place, until = made(tmp_path, key(1), 2 * UNUSED_S), time.monotonic() + 20
    others = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    with ThreadPoolExecutor(1) as here:
        try:
            fcntl.flock(others, fcntl.LOCK_EX)
            held = here.submit(hold, place)
            while not is_waited_for(place):
                assert time.monotonic() < until
                time.sleep(0.01)
            shutil.rmtree(place)
        finally:
            os.close(others)
        assert not held.result()
