"""The tables at a run's end, worst first, and its last line: the first word follows from the exit code."""

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.wording import Again
from perfgate.model import Effect, Outcome, Verdict
from perfgate.model.command import program
from perfgate.model.usual import driver_option
from perfgate.report.next_steps import alone, options_for, to_do_line
from perfgate.report.terminal import fitting, summary_line, write_table
from tests.harness.run_gate import HANG_BOUND_S, ROOT

PASSED = Outcome(name="batch-1k", verdict=Verdict.PASS, judgements=())


@pytest.mark.parametrize(
    ("exit_code", "word"),
    [(0, "GREEN"), (1, "RED"), (2, "INTERRUPTED"), (3, "NO VERDICT"), (6, "UNDECIDED"), (7, "NOT ALL PUT BACK")],
)
def test_the_first_word_follows_from_the_exit_code(exit_code: int, word: str) -> None:
    assert summary_line([PASSED], [], 3, exit_code).startswith(f"{word}: judged 1 of 1 scenarios (1 PASS)")


class Lines:
    """A terminal that keeps what is written."""

    def __init__(self, *, isatty: bool = False) -> None:
        self.text, self.isatty = "", isatty

    def write(self, content: str) -> None:
        self.text += content

    def write_line(self, line: str, **_markup: bool) -> None:
        self.text += line + "\n"

    @property
    def names(self) -> list[str]:
        """The first cell of each row, without the head."""
        return [line.split()[0] for line in self.text.splitlines()[1:]]


def test_the_worst_verdict_stands_first_and_equal_ones_keep_their_order() -> None:
    terminal = Lines()
    verdicts = ("PASS", "MISSING", "REGRESSED", "PASS", "INVALID", "BROKEN", "INCONCLUSIVE", "IMPROVED")
    write_table(terminal, ("scenario", "verdict"), [(f"row-{i}", verdict) for i, verdict in enumerate(verdicts)])
    assert terminal.names == ["row-5", "row-2", "row-4", "row-6", "row-1", "row-7", "row-0", "row-3"]


def test_a_table_of_a_comparison_stands_worst_first_too() -> None:
    terminal = Lines()
    effects = (Effect.SAME, Effect.FASTER, Effect.INCONCLUSIVE, Effect.SLOWER)
    write_table(terminal, ("scenario", "verdict"), [(effect.name, effect.value) for effect in effects])
    assert terminal.names == ["SLOWER", "INCONCLUSIVE", "FASTER", "SAME"]


def test_a_table_without_verdicts_keeps_its_order() -> None:
    terminal = Lines()
    write_table(terminal, ("scenario", "about"), [("b", "10 s"), ("a", "20 s")])
    assert terminal.names == ["b", "a"]


RELATION = ("acks-rate", "replicas-3 / acks-all records_per_s, of one family", "1.60", "1.15 .. 10", "PASS")
HEAD = ("relation", "compares", "ratio", "must be", "verdict")


@pytest.mark.parametrize(("columns", "cut"), [(140, False), (60, True)])
def test_a_table_fits_a_narrow_terminal_by_cutting_text_and_no_number(
    monkeypatch: pytest.MonkeyPatch, columns: int, cut: bool
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for isatty in (True, False):
        terminal = Lines(isatty=isatty)
        write_table(terminal, HEAD, [RELATION])
        assert all(part in terminal.text for part in ("acks-rate", "1.60", "PASS"))
        assert ("…" in terminal.text) == (cut and isatty), "a log keeps everything"
        assert not isatty or max(map(len, terminal.text.splitlines())) <= columns


def tables(columns: int) -> st.SearchStrategy[list[tuple[str, ...]]]:
    return st.lists(st.tuples(*[st.text("a1+", max_size=40)] * columns), min_size=2, max_size=5)


@given(st.integers(2, 6).flatmap(tables), st.integers(1, 200))
def test_widths_fit_or_nothing_more_can_be_cut(rows: list[tuple[str, ...]], columns: int) -> None:
    head, *rows = rows
    whole, found = fitting(head, rows, None), fitting(head, rows, columns)
    assert all(a <= b for a, b in zip(found, whole, strict=True))
    assert (found[0], found[-1]) == (whole[0], whole[-1])
    if sum(whole) + 2 * (len(whole) - 1) <= columns:
        assert found == whole
    elif sum(found) + 2 * (len(found) - 1) > columns:
        assert fitting(head, rows, 1) == found, "nothing more can be cut"


def outcome(name: str, verdict: Verdict) -> Outcome:
    return Outcome(name=name, verdict=verdict, judgements=())


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (
            Verdict.REGRESSED,
            "batch-16k is REGRESSED: {program} gate --target a.toml --tier nightly -k batch-16k measures",
        ),
        (Verdict.BROKEN, "batch-16k is BROKEN: read the brokers' logs (logs/ beside run.json), then {program} gate"),
        (
            Verdict.INVALID,
            "batch-16k is INVALID: mend the reason that its message gives, then {program} gate --target a",
        ),
        (Verdict.INCONCLUSIVE, "then {program} gate --target a.toml --tier nightly -k batch-16k --rounds 9"),
        (Verdict.MISSING, "batch-16k is MISSING: {program} baseline --target a.toml --tier nightly stores"),
    ],
)
def test_the_last_line_says_what_to_do_of_the_worst_with_its_command(verdict: Verdict, said: str) -> None:
    line = to_do([PASSED, outcome("batch-16k", verdict)], {}, "a.toml", "nightly")
    assert line.startswith("To do: batch-16k is")
    assert said.format(program=program()) in line


def to_do(
    outcomes: list[Outcome],
    relations: dict[str, Outcome],
    target: str = "",
    tier: str = "smoke",
    *,
    names: Collection[str] = (),
    rounds: int = 3,
    on_that_machine: bool = False,
    driver: tuple[str, ...] = (),
) -> str:
    given = options_for(target, tier)
    again = Again(given=given, recording=given, driver=driver, rounds=rounds)
    return to_do_line(outcomes, relations, again, names=names, on_that_machine=on_that_machine)


def test_the_last_line_counts_what_else_is_not_green_and_knows_relations() -> None:
    relations = {"acks/acks-rate": outcome("acks-rate", Verdict.REGRESSED)}
    rows = [outcome("batch-1k", Verdict.MISSING), PASSED]
    line = to_do(rows, relations, on_that_machine=True)
    again = f"{program()} gate --family acks measures"
    assert line.startswith(f"To do on that machine: acks-rate is REGRESSED: {again}")
    assert line.endswith("(and 1 more that are not green)")
    assert to_do([PASSED], {}).startswith("To do: nothing, all")


def test_what_was_held_against_nothing_is_not_within_its_limits() -> None:
    """Of a load from hosts no baseline can be made: its scenarios' MISSING is not asked to be mended by one."""
    line = to_do([], {})
    assert "within its limits" not in line
    assert "--profile NAME" in line


def test_more_rounds_are_more_than_there_were() -> None:
    rows = [outcome("batch-16k", Verdict.INCONCLUSIVE)]
    assert "--rounds 9" in to_do(rows, {}, rounds=3)
    assert "--rounds 30" in to_do(rows, {}, rounds=15), "full has 15"


def test_the_command_has_the_driver_of_the_run() -> None:
    """A run with pulsar-perf was to be repeated with the suite's own engine."""
    for verdict, options in ((Verdict.REGRESSED, ""), (Verdict.INCONCLUSIVE, " --rounds 9")):
        line = to_do([outcome("batch-16k", verdict)], {}, driver=driver_option("pulsar", "pulsar-perf"))
        assert f" gate -k batch-16k --driver pulsar-perf{options}" in line
    assert driver_option("kafka", "java") == ("--driver", "java")
    assert driver_option("kafka", "librdkafka") == driver_option("pulsar", "libpulsar") == ()
    assert driver_option("kafka", "") == (), "of an old run"


def test_a_scenario_is_asked_for_alone() -> None:
    """-k takes every name that contains the one: three others of real brokers' load were measured besides."""
    rows = [outcome("partitions-3", Verdict.REGRESSED)]
    names = ["partitions-3", "partitions-30", "partitions-300", "read-partitions-3", "batch-1k"]
    found = to_do(rows, {}, names=names)
    assert "gate -k 'partitions-3 and not (partitions-30 or read-partitions-3)' " in found
    assert alone("partitions-30", names) == ("-k", "partitions-30 and not (partitions-300)")
    assert alone("batch-1k", names) == ("-k", "batch-1k")


def test_a_reference_stands_for_thresholds() -> None:
    missing = [PASSED, outcome("rate-30k", Verdict.MISSING)]
    assert summary_line(missing, [], 0, 0).startswith("GREEN WITHOUT THRESHOLDS: ")
    assert summary_line(missing, [], 0, 0, by_reference=True).startswith("GREEN: ")


def test_no_color_is_respected_on_a_terminal() -> None:
    def shown(**more: str) -> bytes:
        ours, theirs = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [sys.executable, "-c", COLOURED]
        with subprocess.Popen(command, cwd=ROOT, env={**environment, "TERM": "xterm", **more}, stdout=theirs) as run:
            os.close(theirs)
            output = b""
            with contextlib.suppress(OSError):  # Linux ends a terminal whose other side is closed with an error
                while chunk := os.read(ours, 65536):
                    output += chunk
            assert run.wait(timeout=HANG_BOUND_S) == 0
        os.close(ours)
        return output

    assert b"\x1b[31m" in shown()
    assert b"\x1b[" not in shown(NO_COLOR="1")


COLOURED = """
import pytest
from perfgate.report.terminal import write_table

class Shows:
    def pytest_terminal_summary(self, terminalreporter):
        write_table(terminalreporter, ("scenario", "verdict"), [("batch-1k", "REGRESSED")])

alone = ["--noconftest", "-c", "/dev/null", "--rootdir=."]  # no plugin of the checkout is needed for it
raise SystemExit(pytest.main([*alone, "--collect-only", "-q", "tests/harness/report/test_terminal.py"], [Shows()]))
"""
