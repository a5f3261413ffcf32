"""Changes from outside: applied, reverted however the run ends, each failure reported in words."""

import errno
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.fixtures import live
from perfgate.fixtures.book import Book
from perfgate.host.outside import CommandedChange, PausedChange, revert_what_was_left, run
from perfgate.model.changes import Commands
from perfgate.model.errors import ConfigurationError, TargetError
from tests.harness.run_gate import HANG_BOUND_S, ROOT, gate

Make = Callable[..., CommandedChange]
CTRL_C = "sleep 0.2; kill -INT $PPID"
"""What a command does to have the run that waits for it interrupted."""


@pytest.fixture
def applied(tmp_path: Path) -> Path:
    """Return the file that is there while the change is applied."""
    return tmp_path / "applied"


@pytest.fixture
def make(tmp_path: Path, applied: Path) -> Iterator[Make]:
    made: list[CommandedChange] = []

    def with_commands(**given: object) -> CommandedChange:
        commands = Commands(**{"apply": f"touch {applied}", "revert": f"rm -f {applied}", **given})  # type: ignore[arg-type]
        printed = tmp_path / "commands.log"
        made.append(CommandedChange(commands, run_id="run-1", folder=tmp_path / "state", printed=printed))
        return made[-1]

    yield with_commands
    assert [one.close() for one in made] == [() for _ in made]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Have Ctrl-C interrupt this process, which may be one of a shell's background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def applied_by_a_killed_run(tmp_path: Path, applied: Path, revert: str) -> Path:
    """Have a run apply the change and be killed; return its note."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from perfgate.host.outside import CommandedChange\nfrom perfgate.model.changes import Commands\n"
        "commands, state = Commands(apply=sys.argv[1], revert=sys.argv[2]), Path(sys.argv[3])\n"
        "CommandedChange(commands, run_id='run-1', folder=state, printed=state / 'log').change(())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, f"touch {applied}", revert, str(tmp_path / "state")]
    assert subprocess.run(command, cwd=ROOT, timeout=HANG_BOUND_S).returncode == -signal.SIGKILL
    assert applied.exists()
    (note,) = notes(tmp_path)
    return note


def notes(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "state").glob("*.json"))


def test_what_is_applied_is_noted_until_it_is_reverted(make: Make, applied: Path, tmp_path: Path) -> None:
    change = make()
    for _ in range(2):
        assert change.change(()) > 0
        assert applied.exists()
        assert len(notes(tmp_path)) == 1
        assert change.restore() > 0
        assert not applied.exists()
        assert not notes(tmp_path)
    assert change.close() == (), "nothing is applied"
    assert (tmp_path / "commands.log").read_text().count("ended with 0") == 4


def test_a_change_that_is_applied_is_reverted_when_the_run_ends(make: Make, applied: Path, tmp_path: Path) -> None:
    change = make()
    change.change(())
    assert change.close() == ()
    assert not applied.exists()
    assert not notes(tmp_path)


def test_a_command_that_fails_is_told_with_its_last_words_and_reverted(make: Make, applied: Path) -> None:
    change = make(apply=f"touch {applied}; echo no such host; exit 3")
    with pytest.raises(TargetError, match=r"\[commands\] apply ended with 3: no such host"):
        change.change(())
    assert applied.exists(), "it failed half-way"
    assert change.close() == ()
    assert not applied.exists()


@pytest.mark.parametrize("gone", [False, True], ids=["told", "nobody to tell"])
@pytest.mark.usefixtures("interruptible")
def test_what_a_command_began_elsewhere_does_not_win_over_the_revert(
    applied: Path, tmp_path: Path, *, gone: bool
) -> None:
    """Ctrl-C killed the shell, and its child of another session applied the change after it had been reverted.

    So it still did where the output was gone: a closed terminal, or a `tee` that the same Ctrl-C had ended.
    """
    told = list[str]()

    def tell(text: str) -> None:
        told.append(text)
        if gone:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    commands = Commands(apply=f"setsid sh -c 'sleep 0.7; touch {applied}' & {CTRL_C}; wait", revert=f"rm -f {applied}")
    made = CommandedChange(commands, run_id="r", folder=tmp_path / "state", printed=tmp_path / "log", note=tell)
    with pytest.raises(KeyboardInterrupt):
        made.change(())
    assert made.close() == ()
    assert told == ["interrupted: [commands] apply goes on to its end, 600 s at most; a second time ends it"]
    time.sleep(0.8)
    assert not applied.exists()


@pytest.mark.parametrize("meanwhile", ["revert", "ready"])
@pytest.mark.usefixtures("interruptible")
def test_what_is_reverted_is_not_reverted_again_after_ctrl_c(
    make: Make, applied: Path, tmp_path: Path, meanwhile: str
) -> None:
    """`rm` fails the second time: THE CHANGE IS STILL APPLIED, said the end, and no further run could start."""
    once = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; {CTRL_C}; }}"
    change = (
        make(revert=f"{once}; rm {applied}")
        if meanwhile == "revert"
        else make(revert=f"rm {applied}", ready=f"test -e {applied} || {once}")
    )
    change.change(())
    with pytest.raises(KeyboardInterrupt):
        change.restore()
    assert not applied.exists()
    assert not list((tmp_path / "state").glob("run-1*"))
    assert change.close() == ()


@pytest.mark.usefixtures("interruptible")
def test_a_revert_that_failed_at_ctrl_c_is_tried_again(make: Make, applied: Path, tmp_path: Path) -> None:
    change = make(revert=f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; {CTRL_C}; exit 1; }}; rm {applied}")
    change.change(())
    with pytest.raises(KeyboardInterrupt):
        change.restore()
    assert len(notes(tmp_path)) == 1
    assert change.close() == ()
    assert not applied.exists()


def test_a_command_is_bounded(make: Make) -> None:
    with pytest.raises(TargetError, match=r"\[commands\] apply did not end within 1 s: sleep 60"):
        make(apply="sleep 60", timeout_s=1).change(())


def test_ready_is_asked_until_it_is_so(make: Make, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    change = make(ready=f"echo x >> {asked}; [ $(wc -l < {asked}) -ge 2 ]")
    change.change(())
    assert asked.read_text().count("x") == 2


def test_what_is_never_ready_is_told(tmp_path: Path) -> None:
    never = Commands(apply="true", revert="true", ready="echo not yet; false", timeout_s=1)
    with pytest.raises(TargetError, match=r"\[commands\] ready: not within 1 s after apply: not yet"):
        run(never, "apply", never.apply)


def test_two_runs_do_not_apply_at_once(make: Make) -> None:
    make()
    with pytest.raises(ConfigurationError, match="another run applies and reverts a change by commands"):
        make()


def test_a_folder_that_cannot_be_written_is_one_message(make: Make, tmp_path: Path) -> None:
    (tmp_path / "state" / "commands.lock").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"state: Is a directory;.*XDG_STATE_HOME"):
        make()


def test_a_killed_runs_change_is_reverted_at_the_next_start_and_told(applied: Path, tmp_path: Path) -> None:
    note = applied_by_a_killed_run(tmp_path, applied, f"rm {applied}")
    said: list[str] = []
    revert_what_was_left(tmp_path / "state", said.append)
    assert not applied.exists()
    assert not note.exists()
    assert said == [f"reverted the change that run run-1, which was killed, had applied: rm {applied}"]


def test_load_hosts_that_do_not_answer_keep_nothing_applied(
    applied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start ended with their error, and the change stayed."""
    applied_by_a_killed_run(tmp_path, applied, f"rm {applied}")
    (tmp_path / "xdg" / "kafka-perf-gate").mkdir(parents=True)
    (tmp_path / "state").rename(tmp_path / "xdg" / "kafka-perf-gate" / live.COMMANDS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(live, "Progress", Mock())
    monkeypatch.setattr(live, "prepare", Mock())
    monkeypatch.setattr(live, "load_hosts", Mock(side_effect=ConfigurationError("no scheduler answers")))
    run = Mock(resume=None, run_dir=tmp_path / "run", load=Mock(confirmed=False))
    with pytest.raises(ConfigurationError, match="no scheduler answers"), live.live(MagicMock(), run, Book(), []):
        pytest.fail("it began")
    assert not applied.exists()


def test_a_command_that_outlives_its_run_does_not_win_over_the_revert(applied: Path, tmp_path: Path) -> None:
    """It was reverted at once, and applied a little later: for good, and nobody knew."""
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from perfgate.host.outside import CommandedChange\nfrom perfgate.model.changes import Commands\n"
        "commands, state = Commands(apply=sys.argv[1], revert=sys.argv[2]), Path(sys.argv[3])\n"
        "CommandedChange(commands, run_id='run-1', folder=state, printed=state / 'log').change(())\n"
    )
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    apply = f"touch {begun}; until test -e {go_on}; do sleep 0.05; done; touch {applied}"
    command = [sys.executable, "-c", script, apply, "rm applied", str(tmp_path / "state")]
    run = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    until = time.monotonic() + HANG_BOUND_S
    while not (begun.exists() and list((tmp_path / "state").glob("*.command"))):
        assert time.monotonic() < until
        time.sleep(0.05)
    run.kill()
    run.wait()
    said: list[str] = []

    def told(text: str) -> None:
        said.append(text)
        if not go_on.exists():
            go_on.touch()  # the command ends only once it is waited for
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")  # which it is, also where nobody can be told

    revert_what_was_left(tmp_path / "state", told)
    assert not applied.exists()
    assert said[0] == "waiting for the end of a command that a killed run had begun, 600 s at most"
    assert said[1].endswith("had applied: rm applied"), "where that run was started"
    assert not list((tmp_path / "state").glob("run-1*"))


def test_a_full_disk_reverts_no_less(make: Make, applied: Path, tmp_path: Path) -> None:
    """What is noted of a command that runs is of use where the run is killed, and no reason not to run it."""
    change = make()
    change.change(())
    (running,) = (tmp_path / "state").glob("*.command")
    running.unlink()
    running.symlink_to("/dev/full")
    assert change.close() == ()
    assert not applied.exists()


def test_a_note_that_cannot_be_removed_is_named(applied: Path, tmp_path: Path) -> None:
    """The change was reverted, and an error took what had been measured with it."""
    told, commands = list[str](), Commands(apply=f"touch {applied}", revert=f"rm {applied}")
    printed = tmp_path / "commands.log"
    change = CommandedChange(commands, run_id="run-1", folder=tmp_path / "state", printed=printed, note=told.append)
    change.change(())
    (note,) = notes(tmp_path)
    note.unlink()
    note.mkdir()  # a folder is not removed as a file is, whoever asks
    assert change.restore() > 0
    assert not applied.exists()
    assert f"remove {note} once that works" in told[0]
    assert change.close() == (), "it is not reverted a second time"


def test_a_living_runs_change_is_left_alone(make: Make, applied: Path, tmp_path: Path) -> None:
    living = make()
    living.change(())
    revert_what_was_left(tmp_path / "state", pytest.fail)
    assert applied.exists()
    living.close()


def test_what_cannot_be_reverted_is_told_and_tried_again(make: Make, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    change = make(revert=f"test -e {mended}")
    change.change(())
    (left,) = change.close()
    assert left.startswith(f"THE CHANGE IS STILL APPLIED: revert it by hand: test -e {mended} ([commands] revert ended")
    assert len(notes(tmp_path)) == 1
    mended.touch()
    assert change.close() == ()
    assert not notes(tmp_path)


def test_what_a_killed_run_left_and_cannot_be_reverted_stops_the_next_start(applied: Path, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    note = applied_by_a_killed_run(tmp_path, applied, f"test -e {mended}")
    with pytest.raises(ConfigurationError, match=r"run run-1 was killed with its change applied.*by hand: test -e"):
        revert_what_was_left(tmp_path / "state", pytest.fail)
    assert note.exists()
    mended.touch()
    revert_what_was_left(tmp_path / "state", lambda _: None)
    assert not note.exists()


def test_no_run_applies_a_change_while_another_reverts_what_was_left(make: Make, applied: Path, tmp_path: Path) -> None:
    """The reversal undid the change that the other run had just applied: both its sides were without it."""
    go_on = tmp_path / "go-on"
    applied_by_a_killed_run(tmp_path, applied, f"until test -e {go_on}; do sleep 0.05; done; rm {applied}")
    (running,) = (tmp_path / "state").glob("*.command")
    running.unlink()
    with ThreadPoolExecutor(1) as beside:
        reverted = beside.submit(revert_what_was_left, tmp_path / "state", lambda _: None)
        try:
            until = time.monotonic() + HANG_BOUND_S
            while not running.exists():
                assert time.monotonic() < until
                time.sleep(0.05)
            with pytest.raises(ConfigurationError, match="another run applies and reverts a change by commands"):
                make()
        finally:
            go_on.touch()
        reverted.result(timeout=HANG_BOUND_S)
    change = make()
    change.change(())
    assert applied.exists()


@pytest.mark.usefixtures("interruptible")
def test_what_a_killed_run_left_is_reverted_to_its_end_at_ctrl_c(applied: Path, tmp_path: Path) -> None:
    """The revert was killed half-way, without a word."""
    revert = f"{CTRL_C}; sleep 0.3; rm {applied}"
    applied_by_a_killed_run(tmp_path, applied, revert)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        revert_what_was_left(tmp_path / "state", said.append)
    assert not applied.exists()
    assert not list((tmp_path / "state").glob("run-1*"))
    assert said == [
        "interrupted: [commands] revert goes on to its end, 600 s at most; a second time ends it",
        f"reverted the change that run run-1, which was killed, had applied: {revert}",
    ]


@pytest.mark.usefixtures("interruptible")
def test_what_ctrl_c_left_applied_is_told_and_reverted_by_the_next_start(applied: Path, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    note = applied_by_a_killed_run(tmp_path, applied, f"test -e {mended} || {{ {CTRL_C}; exit 1; }}; rm {applied}")
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        revert_what_was_left(tmp_path / "state", said.append)
    assert said[-1].startswith("THE CHANGE IS STILL APPLIED, of run run-1, which was killed: the next start reverts it")
    assert note.exists()
    mended.touch()
    revert_what_was_left(tmp_path / "state", said.append)
    assert not applied.exists()
    assert not note.exists()


def test_the_revert_of_what_a_killed_run_left_is_noted(applied: Path, tmp_path: Path) -> None:
    """After a kill -9 of the start that reverts, the next one could not wait for its end."""
    noted = tmp_path / "state" / "run-1.command"
    own = (
        f'for i in $(seq 100); do read pid _ < {noted}; [ "$pid" = $$ ] && exec rm {applied}; sleep 0.05; done; exit 1'
    )
    applied_by_a_killed_run(tmp_path, applied, own)
    revert_what_was_left(tmp_path / "state", lambda _: None)
    assert not applied.exists()


def test_what_another_host_s_run_left_stops_the_start(applied: Path, tmp_path: Path) -> None:
    """It was told, and both sides of the next comparison had the change: SAME."""
    note = applied_by_a_killed_run(tmp_path, applied, "true")
    note.write_text(json.dumps({**json.loads(note.read_text()), "host": "runner-7", "boot": "another"}))
    with pytest.raises(ConfigurationError, match=r"of host runner-7 has left its change applied.*then remove"):
        revert_what_was_left(tmp_path / "state", pytest.fail)
    assert notes(tmp_path) == [note]


@pytest.mark.parametrize("commands", [{}, {"apply": "a", "revert": "r", "of a later version": 1}])
def test_a_note_that_cannot_be_read_stops_the_start(tmp_path: Path, commands: dict[str, object]) -> None:
    """It was told, and both sides of the next comparison may have had the change: SAME."""
    (tmp_path / "state").mkdir(mode=0o700)
    note = tmp_path / "state" / "run-1.json"
    note.write_text(json.dumps({"run": "run-1", "folder": "/", "commands": commands}))
    with pytest.raises(ConfigurationError, match=r"cannot be read: see whether .* is still applied"):
        revert_what_was_left(tmp_path / "state", pytest.fail)
    assert note.exists()


def test_a_container_reverts_what_one_before_it_left(applied: Path, tmp_path: Path) -> None:
    """Each has a name of its own; the kernel, whose lock it was, is the same."""
    note = applied_by_a_killed_run(tmp_path, applied, f"rm {applied}")
    note.write_text(json.dumps({**json.loads(note.read_text()), "host": "f3a9c1"}))
    revert_what_was_left(tmp_path / "state", lambda _: None)
    assert not notes(tmp_path)
    assert not applied.exists()


def test_a_machine_of_the_same_name_is_another_one(applied: Path, tmp_path: Path) -> None:
    """Of a folder that machines share: its lock may tell nothing here, and its run may live."""
    note = applied_by_a_killed_run(tmp_path, applied, f"rm {applied}")
    note.write_text(json.dumps({**json.loads(note.read_text()), "number": "another", "boot": "another"}))
    with pytest.raises(ConfigurationError, match=r"or still runs there"):
        revert_what_was_left(tmp_path / "state", pytest.fail)
    assert applied.exists()


def test_without_a_folder_nothing_is_looked_for(tmp_path: Path) -> None:
    revert_what_was_left(tmp_path / "none", pytest.fail)
    assert not (tmp_path / "none").exists()


@pytest.fixture
def terminal() -> Iterator[tuple[int, Path]]:
    """Give the person's side of a terminal, and the path of the other one."""
    ours, theirs = pty.openpty()
    yield ours, Path(os.ttyname(theirs))
    for side in (ours, theirs):
        os.close(side)


def asked(person: int, what: str) -> None:
    """Wait until the person is asked to do this."""
    shown = ""
    while f"{what} 'turbo off' now, then press Enter: " not in shown:  # the echo of what was pressed comes first
        assert select.select([person], [], [], HANG_BOUND_S)[0], shown
        shown += os.read(person, 65536).decode()


def test_a_person_is_asked_to_apply_and_to_revert_and_an_enter_from_before_is_no_answer(
    terminal: tuple[int, Path],
) -> None:
    person, path = terminal
    change = PausedChange("turbo off", path)
    with ThreadPoolExecutor(1) as beside:
        for what, do in (("apply", lambda: change.change(())), ("revert", change.restore)):
            os.write(person, b"\n\n")
            took = beside.submit(do)
            asked(person, what)
            with pytest.raises(TimeoutError):
                took.result(timeout=0.2)
            os.write(person, b"\n")
            assert took.result(timeout=HANG_BOUND_S) > 0
    assert change.close() == ()


def test_what_is_still_applied_is_told_and_nobody_is_waited_for(terminal: tuple[int, Path]) -> None:
    person, path = terminal
    change = PausedChange("turbo off", path)
    with ThreadPoolExecutor(1) as beside:
        applied = beside.submit(change.change, ())
        asked(person, "apply")
        os.write(person, b"\n")
        applied.result(timeout=HANG_BOUND_S)
    left = ("THE CHANGE IS STILL APPLIED: revert 'turbo off' by hand",)
    assert change.close() == left
    assert change.close() == left, "it may be asked again"


def test_a_terminal_that_is_closed_ends_the_question() -> None:
    change = PausedChange("turbo off", Path(os.devnull))
    with pytest.raises(TargetError, match="the terminal was closed when it asked to apply 'turbo off'"):
        change.change(())
    change.close()


def test_without_a_terminal_it_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="this run has no terminal"):
        PausedChange("turbo off", tmp_path / "none" / "tty")


def test_its_file_states_a_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "change.toml"
    path.write_text('name = "x"\n[producer]\nacks = "all"\n')
    done = gate(tmp_path / "results", f"--compare={path}", "--pause-for-change")
    assert done.code == 2
    assert "with --pause-for-change a person makes the whole change: leave all but name out" in done.output
