"""A change by hand: asked for at the terminal, and told where it is still applied when the run ends."""

import os
import pty
import select
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfgate.host.outside import PausedChange
from perfgate.model.errors import ConfigurationError, TargetError
from tests.harness.run_gate import HANG_BOUND_S, gate


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
