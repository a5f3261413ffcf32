"""Recorded runs that are like another, and whether a baseline may be made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perfgate.judge.noise import disturbed
from perfgate.model import CanaryReading, Verdict
from perfgate.model.system import CLIENT_FACTS, system_of
from perfgate.report.results import note_once, recorded_facts, recorded_runs, run_files
from perfgate.report.view import NO_ANSWER

Run = TypeVar("Run", bound=Mapping[str, Any])


def runs_alike(
    document: Mapping[str, Any], results_dir: Path, note: Callable[[str], None] = note_once
) -> list[Mapping[str, Any]]:
    """Return this run and every plain one of its kind, with scenarios declared alike; `note` names unreadable ones."""
    wanted, declared = _kind(document), _declared(document)
    alike = {document["run_id"]: document}
    for other in recorded_runs(run_files(results_dir), note):
        if _kind(other) == wanted and not why_not_plain(other):
            theirs = _declared(other)
            same = [e for e in other["scenarios"] if theirs[e["name"]] == declared.get(e["name"], theirs[e["name"]])]
            alike.setdefault(other["run_id"], {**other, "scenarios": same})
    return each_once(list(alike.values()))


def run_before(
    document: Mapping[str, Any], results_dir: Path, note: Callable[[str], None] = note_once
) -> Mapping[str, Any] | None:
    """Return the newest earlier plain run of the same target, tier and driver; `note` names unreadable ones."""

    def kind(run: Mapping[str, Any]) -> tuple[object, ...]:
        target = run["target"]
        return system_of(target), target["kind"], target.get("name"), run["tier"]["name"], run["driver"]

    earlier = [path for path in run_files(results_dir) if path.parent.name < document["run_id"]]
    runs = recorded_runs(reversed(earlier), note)
    return next((run for run in runs if kind(run) == kind(document) and not why_not_plain(run)), None)


def each_once(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without those that were continued; of several that continue the same run only the newest."""
    continued = {run.get("resumed_from"): run["run_id"] for run in sorted(runs, key=lambda run: str(run["run_id"]))}
    return [
        run
        for run in runs
        if run["run_id"] not in continued
        and run["run_id"] == continued.get(run.get("resumed_from") or "", run["run_id"])
    ]


def why_not_plain(document: Mapping[str, Any]) -> str:
    """Return the reason why no thresholds can be made from a run of this kind; empty if they can."""
    kinds = {
        "change": "compared a change",
        "reference": "took turns with a reference",
        "replay_of": "is a replay",
        "modified": "was modified",
    }
    return next((f"run {document['run_id']} {what}" for key, what in kinds.items() if document.get(key)), "")


def unsound(document: Mapping[str, Any], because: str = "") -> str:
    """Return the reason why a plain run's figures are no baseline; empty if they are. A red one needs `because`."""
    if (red := red_of(document)) and not because:
        return f"{', '.join(red)} red; if that is right, --because 'TEXT' counts it"
    if bad := [e for e in document["scenarios"] if e["verdict"] in NO_ANSWER]:
        reason = f": {why.splitlines()[0]}" if (why := _why(bad[0])) else ""  # logs follow
        return f"{', '.join(e['name'] for e in bad)} {bad[0]['verdict'] or 'unjudged'}{reason}"
    if not document["scenarios"]:
        return "no scenario was measured to its end"
    for entry in document["scenarios"]:
        if noise := disturbed([CanaryReading(**reading) for reading in entry["canary"]], None):
            return noise
    return ""


def _why(entry: Mapping[str, Any]) -> str:
    no_limit = [f"{j['metric']}: {j['reason']}" for j in entry["judgements"] if j["verdict"] == Verdict.MISSING.value]
    reasons = [str(reason) for reason in entry["reasons"]]
    return next((reason for reason in reasons if reason not in no_limit), reasons[0] if reasons else "")


def red_of(document: Mapping[str, Any]) -> list[str]:
    """Return the names that were too slow in a run, confirmed or not, or failed with another family."""
    related = [*document["relations"], *document.get("ranges", ())]
    red = [e["name"] for e in document["scenarios"] if e["verdict"] == Verdict.REGRESSED.value or e["first_look"]]
    red += [e["name"] for e in related if e["verdict"] == Verdict.REGRESSED.value]
    for e in document.get("baselines", ()):
        if any(flaw["broken"] for r in e["rounds"] for flaw in r["flaws"]):
            red.append(f"{e['name']} measured once more beside {e['beside']}")
    return red


def _kind(document: Mapping[str, Any]) -> tuple[object, ...]:
    facts = recorded_facts(document)
    client = document["environment"].get(CLIENT_FACTS[system_of(document["target"])][-1])
    return (document["schema"], *facts.items(), *document["tier"].items(), client)


def _declared(document: Mapping[str, Any]) -> dict[str, object]:
    by_scenario: dict[str, object] = {}  # without the release, which is the run's, and a knee's rate
    for entry in document["scenarios"]:
        cluster = {**entry["declared"]["cluster"], "version": None}
        of_knee = {"rate": None, "knee": None} if entry["load"].get("share_of_knee") else {}
        by_scenario[entry["name"]] = ({**entry["declared"], "cluster": cluster}, {**entry["load"], **of_knee})
    return by_scenario
