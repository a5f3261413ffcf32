"""Next steps after a run: what to do, and the commands for it with what differs from the defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from perfgate.judge.run_end import is_undecided
from perfgate.judge.wording import MORE_ROUNDS, Again
from perfgate.model import Outcome, Verdict
from perfgate.model.command import command_line
from perfgate.model.judged import UNFINISHED, ExitCode, severity
from perfgate.model.pages import page
from perfgate.model.system import System, system_of
from perfgate.model.usual import driver_option, tier_options
from perfgate.report.folder_options import stated_target
from perfgate.report.view import View

USUAL_TARGET, USUAL_TIER = "embedded", "smoke"
MOST_STEPS = 5
HELD_BY_PROFILE = "name stored thresholds of such a load: --profile NAME"
NO_GROUND: Mapping[int, str] = {
    **UNFINISHED,
    ExitCode.RED: "read in its log which brokers failed beside other scenarios, and repeat it",
    ExitCode.UNDECIDED: "nothing was judged, or only what an interrupted run had measured",
}
"""Why not to decide on a run with this exit code, where none of its verdicts says so."""


def options_for(target: str = "", tier: str = USUAL_TIER, system: System = "kafka") -> tuple[str, ...]:
    """Return the options that name these; none for the usual ones, and no target where it is empty."""
    asked = {"--system": (system, "kafka"), "--target": (target, ""), "--tier": (tier, USUAL_TIER)}
    return tuple(word for option, (value, usual) in asked.items() if value != usual for word in (option, value))


def target_of(document: Mapping[str, Any], usual: str) -> str:
    """Return --target of a recorded run, empty where a command has it anyway, from `usual`; no file is known."""
    kind = str(document["target"]["kind"])
    return "FILE.toml" if kind == "brokers" else "" if kind == usual == USUAL_TARGET else kind


def alone(name: str, names: Collection[str]) -> tuple[str, str]:
    """Return the option that selects the scenario of this name and no other: -k takes all names that contain it."""
    others = sorted((other for other in names if name in other and other != name), key=len)
    shortest = [other for at, other in enumerate(others) if not any(before in other for before in others[:at])]
    if not shortest:
        return "-k", name
    return "-k", f"{name} and not ({' or '.join(sorted(shortest))})"


def gate_command(*selection: str, target: str = "", tier: str = USUAL_TIER, system: System = "kafka") -> str:
    """Return the command that measures a selection."""
    return command_line("gate", *options_for(target, tier, system), *selection)


def baseline_command(target: str = "", tier: str = USUAL_TIER, system: System = "kafka", *others: str) -> str:
    """Return the command that records thresholds."""
    return command_line("baseline", *options_for(target, tier, system), *others)


def recording_of(document: Mapping[str, Any], *others: str) -> str:
    """Return the command that records thresholds from runs like a recorded run."""
    target, tier, system = target_here(document), document["tier"], system_of(document["target"])
    as_there = (*driver_option(system, str(document.get("driver", ""))), *tier_options(tier))
    return baseline_command(target, str(tier["name"]), system, *as_there, *others)


def target_here(document: Mapping[str, Any]) -> str:
    """Return --target of a recorded run for a command that is called here; empty where that has it anyway."""
    return target_of(document, stated_target() or USUAL_TARGET)


def to_do_line(
    outcomes: Sequence[Outcome],
    relations: Mapping[str, Outcome],
    again: Again,
    *,
    names: Collection[str],
    on_that_machine: bool,
    with_fault: Collection[str] = (),
) -> str:
    """Return the next step, in one line: that of the worst verdict, with the command for it.

    `relations`: by name with the family in front: acks/acks-rate. `again`: repeats the run. `names`: of all scenarios
    that there are. `on_that_machine`: the run was recorded. `with_fault`: those that declare their number of rounds.
    """
    worst: list[tuple[str, Sequence[str], Outcome]] = [(o.name, alone(o.name, names), o) for o in outcomes]
    worst += [(name.partition("/")[2], ("--family", name.partition("/")[0]), o) for name, o in relations.items()]
    worst = sorted((each for each in worst if not each[2].verdict.green), key=lambda each: severity(each[2].verdict))
    if not worst and not (outcomes or relations):
        return f"To do: nothing was held against anything: select the scenarios of a relation too, or {HELD_BY_PROFILE}"
    if not worst:
        return "To do: nothing, all that was judged is within its limits"
    name, selection, outcome = worst[0]
    longer = () if outcome.name in with_fault else ("--rounds", str(max(MORE_ROUNDS, 2 * again.rounds)))
    plain, more = again.command(selection), again.command(selection, *longer)
    steps = {
        Verdict.BROKEN: f"read the brokers' logs (logs/ beside run.json), then {plain}",
        Verdict.REGRESSED: f"{plain} measures it once more; if it stays, look at what changed since the last green run",
        Verdict.INVALID: f"mend the reason that its message gives, then {plain}",
        Verdict.INCONCLUSIVE: f"quiet the machine, then {more}",
        Verdict.MISSING: f"{command_line('baseline', *again.recording)} stores what it is to be held against",
    }
    there = " on that machine" if on_that_machine else ""
    others = f" (and {len(worst) - 1} more that are not green)" if len(worst) > 1 else ""
    return f"To do{there}: {name} is {outcome.verdict.value}: {steps[outcome.verdict]}{others}"


def without_verdict(
    exit_code: int,
    judged: Collection[Verdict],
    *,
    missing_is_red: bool,
    owed: Mapping[str, str],
    lacking: bool,
    unfinished: str,
    undeclared: str = "",
) -> str:
    """Return the next step after a run that is red or undecided without a verdict that shows it; empty of others.

    `owed`: reasons why the cluster could not be judged; `lacking`: scenarios were kept from running; `unfinished`,
    `undeclared`: why the recorded run is not whole, or a scenario of it is not judged.
    """
    if exit_code == ExitCode.UNHEALTHY:
        return "see what happened to the brokers, then run again"
    if exit_code == ExitCode.ERROR:
        return "read above which error it was; what is no fault of the machine is one of the suite: report it"
    if exit_code == ExitCode.RED:
        red = any(verdict.red or (missing_is_red and verdict is Verdict.MISSING) for verdict in judged)
        # by --undecided: something is to be done about what is undecided
        by_verdict = red or any(map(is_undecided, judged))
        return "" if by_verdict else "read above which brokers failed beside other scenarios, then run again"
    if exit_code == ExitCode.UNDECIDED and all(verdict.green for verdict in judged):
        if owed:
            return f"have the cluster as the profile has it, then run again: {next(iter(owed.values()))}"
        if undeclared:
            return f"judge all that the run recorded: {undeclared}"
        if lacking:
            return "find what keeps scenarios from running or changes how their tests end, and run without it"
        return f"measure it to its end: {unfinished}" if unfinished else "see above why nothing was judged"
    return ""


def next_steps(view: View) -> list[str]:
    """Return the next steps after a run: what was left behind, then those in the messages of the worst verdicts."""
    document = view.document
    steps = [*document["left_behind"], *([view.advice] if view.advice else [])]
    lines = [line.strip() for off in view.off for line in (off.message or "").splitlines()]
    steps += [line.removeprefix("next").strip() for line in lines if line.startswith("next ")]
    if document["exit_code"] != ExitCode.GREEN and not steps:
        why = document.get("cause") or NO_GROUND.get(document["exit_code"], "it ended in an error")
        steps.append(f"Do not base a decision on this run: {why}.")
    if view.missing and not document.get("profile_note"):  # else no such run can be recorded, or not there
        steps.append(f"Record thresholds of this machine: {view.recording or recording_of(document)}")
    if view.missing and document["profile"] and not document.get("reference"):
        words = "Judge" if document.get("profile_note") else "Or judge"
        pages = page("thresholds")
        steps.append(f"{words} by a profile that has limits for these scenarios: --profile NAME ({pages}).")
    steps = steps or ["Nothing: go on. Each scenario's page has the command that repeats it."]
    return list(dict.fromkeys(steps))[:MOST_STEPS]
