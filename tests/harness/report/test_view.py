"""The view of a run: everything that was judged, worst first; and what to do next, the most urgent first."""

import random
from dataclasses import replace
from typing import Any

import pytest

from perfgate.model import Effect, Verdict
from perfgate.model.command import command_line
from perfgate.model.judged import SEVERITY, ExitCode
from perfgate.model.pages import page
from perfgate.report.next_steps import next_steps, without_verdict
from perfgate.report.view import COLLAPSED, Line, view_of
from tests.harness.report.test_markdown import document, judged


def compared(name: str, verdict: str) -> dict[str, Any]:
    return {"scenario": name, "verdict": verdict, "estimate": None, "reasons": []}


def test_lines_stand_in_the_order_of_severity_of_the_model() -> None:
    scenarios = [judged(found.value, found.value) for found in Verdict]
    comparisons = [compared(found.value, found.value) for found in Effect]
    random.Random(1).shuffle(scenarios)
    verdicts = [line.verdict for line in view_of(document(scenarios=scenarios, comparisons=comparisons)).lines]
    assert list(dict.fromkeys(verdicts)) == list(SEVERITY)
    assert len(verdicts) == len(Verdict) + len(Effect)


def test_what_was_not_judged_stands_with_what_is_undecided_and_is_listed() -> None:
    unjudged = {**judged("cut-off", "PASS"), "verdict": None}
    rows = [judged("a", "MISSING"), unjudged, judged("b", "INVALID"), judged("c", "PASS")]
    view = view_of(document(exit_code=2, scenarios=rows))
    assert [line.name for line in view.lines] == ["b", "cut-off", "a", "c"]
    assert [line.name for line in view.off] == ["b", "cut-off"]
    assert {line.verdict for line in view.lines if line not in view.off} <= COLLAPSED


def test_the_headline_is_what_the_worst_message_begins_with() -> None:
    rows = [judged("a", "REGRESSED"), judged("b", "BROKEN")]
    view = view_of(document(exit_code=1, scenarios=rows), {"b": "BROKEN b: it crashed\n  reason     exit code 1"})
    assert view.headline() == "RED: BROKEN b: it crashed, and 1 more below"
    assert Line(verdict="INVALID", name="a", what="too late").sentence == "INVALID a: too late"


def test_what_was_not_run_is_given_by_reason_the_most_frequent_first() -> None:
    absent = [{"name": name, "reason": "rare" if name == "a" else "usual"} for name in "abc"]
    view = view_of(document(not_run=absent))
    assert list(view.not_run().items()) == [("usual", ["b", "c"]), ("rare", ["a"])]


def test_what_was_left_behind_comes_before_advice_and_messages_and_nothing_is_said_twice() -> None:
    rows = [judged(name, "REGRESSED") for name in "abcdefg"]
    messages = {name: f"REGRESSED {name}\n  next       step {min(name, 'e')}" for name in "abcdefg"}
    run = document(exit_code=7, scenarios=rows, left_behind=["BROKER 1 IS DOWN"])
    steps = next_steps(replace(view_of(run, messages), advice="do not apply it"))
    assert steps == ["BROKER 1 IS DOWN", "do not apply it", "step a", "step b", "step c"]


def test_a_run_that_is_red_by_no_verdict_is_no_ground() -> None:
    (step,) = next_steps(view_of(document(exit_code=1, scenarios=[judged("a", "PASS")])))
    assert step.startswith("Do not base a decision on this run: read in its log which brokers failed")
    (step,) = next_steps(view_of(document(exit_code=6, cause="a plugin skipped it")))
    assert step == "Do not base a decision on this run: a plugin skipped it."


def test_thresholds_are_to_be_recorded_where_a_run_like_this_one_can_be() -> None:
    run = document(scenarios=[judged("a", "MISSING")], target={"kind": "brokers"}, tier={"name": "nightly"})
    records = command_line("baseline", "--target", "FILE.toml", "--tier", "nightly")
    assert next_steps(view_of(run)) == [f"Record thresholds of this machine: {records}"]
    (step,) = next_steps(view_of({**run, "profile_note": "its load is of --hosts"}))
    assert step.startswith("Nothing: go on.")


def test_a_profile_that_has_limits_is_to_be_chosen_where_one_is_in_use_that_has_none() -> None:
    run = document(scenarios=[judged("a", "MISSING")], profile="p", target={"kind": "embedded"})
    choose = f"Or judge by a profile that has limits for these scenarios: --profile NAME ({page('thresholds')})."
    assert next_steps(view_of(run))[1:] == [choose]
    (step,) = next_steps(view_of({**run, "profile_note": "its load is of --hosts"}))
    assert step == choose.replace("Or judge", "Judge")


@pytest.mark.parametrize(
    ("code", "verdicts", "more", "said"),
    [
        (ExitCode.UNHEALTHY, "REGRESSED", {}, "see what happened to the brokers"),
        (ExitCode.ERROR, "PASS", {}, "read above which error it was"),
        (ExitCode.RED, "PASS", {}, "read above which brokers failed"),
        (ExitCode.RED, "MISSING", {}, "read above which brokers failed"),
        (ExitCode.RED, "MISSING", {"missing_is_red": True}, ""),
        (ExitCode.RED, "PASS REGRESSED", {}, ""),
        (ExitCode.RED, "PASS INCONCLUSIVE", {}, ""),
        (ExitCode.UNDECIDED, "PASS", {}, "see above why nothing was judged"),
        (ExitCode.UNDECIDED, "PASS", {"unfinished": "cut off"}, "measure it to its end: cut off"),
        (ExitCode.UNDECIDED, "PASS", {"lacking": True, "unfinished": "cut off"}, "find what keeps scenarios"),
        (ExitCode.UNDECIDED, "PASS", {"owed": {"p": "2 brokers"}, "lacking": True}, "have the cluster as the profile"),
        (ExitCode.UNDECIDED, "INVALID", {"unfinished": "cut off"}, ""),
        (ExitCode.GREEN, "PASS", {}, ""),
        (ExitCode.LEFT_BEHIND, "PASS", {}, ""),
    ],
)
def test_what_to_do_is_said_where_no_verdict_says_it(code: int, verdicts: str, more: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"missing_is_red": False, "owed": {}, "lacking": False, "unfinished": "", **more}
    found = without_verdict(code, [Verdict(verdict) for verdict in verdicts.split()], **given)
    assert found.startswith(said)
    assert bool(found) is bool(said)
