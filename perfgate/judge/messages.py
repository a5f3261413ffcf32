"""The message of a verdict that is not green: what was measured, what was expected, and what to do next. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from perfgate.judge.thresholds import all_but_one
from perfgate.model import (
    Judgement,
    Measurement,
    Outcome,
    PairRelation,
    Profile,
    RangeRelation,
    Relation,
    Verdict,
    metric_info,
)

PASSED = (Verdict.PASS, Verdict.IMPROVED)
VALID = (*PASSED, Verdict.MISSING, Verdict.REGRESSED)

NEXT_STEP = {
    Verdict.REGRESSED: (
        "run the scenario again alone ({again}); if it stays, look at what changed since the last green run: "
        "run.json keeps the commit, versions, settings and broker logs of both. If the new figure is meant, "
        "record it: make thresholds"
    ),
    Verdict.BROKEN: (
        "the brokers failed, which no figure can be worse than: read their logs (beside run.json), then {again}; what "
        "the load generator or the machine does is INVALID instead"
    ),
    Verdict.INCONCLUSIVE: "the machine was too noisy to say: quiet it and run again with more rounds ({more})",
    Verdict.INVALID: "the load itself was not valid, so nothing was judged: mend the reason above, then {again}",
    Verdict.MISSING: "no threshold is stored for this target and machine; record it: {baseline} (CONTRIBUTING.md)",
}

MORE_ROUNDS = 9
"""So many rounds, or twice as many as there were, are more where the noise is to be averaged out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """How a run like this one is asked for: `given`: variables of make, from their blank on (" TIER=nightly");
    `selection`: options that select what a message is of, and nothing else; `rounds`: of this run."""

    given: str = ""
    selection: str = ""
    rounds: int = 0

    def command(self, usual: str, options: str = "") -> str:
        """Return the command that measures it once more; `usual`: what selects it where nothing closer does."""
        return f'make gate{self.given} ARGS="{self.selection or usual}{options}"'


USUAL = Again()
VERBS = {"records_per_s": "sends", "received_records_per_s": "receives"}
WARMING = "brokers still warming up"
NEXT_STEP_WARMING = "nothing is known of warm brokers: give them longer before the rounds ({longer})"
PARTLY_NEXT = "  next       quiet the machine and run again; all other metrics of the scenario were judged"


def number(value: float) -> str:
    """Return `value` for a person: thousands separated, three significant digits below a hundred."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share as a percentage: 0.081 as 8.1 %."""
    return f"{share * 100:.1f} %"


def spread_text(width: float | None) -> str:
    """Return the spread of values as a percentage; a dash where there is none, as of a median of 0."""
    return "-" if width is None else percent(width)


def off_baseline(judgement: Judgement) -> float | None:
    """Return by which share the measured value lies off its baseline (relations: an end of its range)."""
    expected = judgement.baseline if judgement.baseline is not None else judgement.limit
    if judgement.measured is None or not expected:
        return None
    return judgement.measured / expected - 1


def scenario_sentence(outcome: Outcome) -> str:
    """Return in one sentence what decided: the metric that is farthest off, or the reason where none was measured.

    "batch-1k sends 57.3 % fewer records/s than its baseline (25,639 records/s, at least 39,000)"
    """
    if outcome.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        measured = [j for j in outcome.judgements if j.verdict is outcome.verdict and j.measured is not None]
        if measured:
            return outcome.name + _off_sentence(max(measured, key=_distance))
    return _reason_sentence(outcome)


def relation_sentence(outcome: Outcome, relation: Relation) -> str:
    """Return in one sentence what decided: the ratio and what it must be, or the reason where there is none."""
    measured = outcome.judgements[0].measured if outcome.judgements else None
    if isinstance(relation, PairRelation) and measured is not None and outcome.verdict is Verdict.REGRESSED:
        ratio = f"{relation.of} / {relation.over} in {relation.metric.name}"
        return f"{outcome.name}: {ratio} is {measured:.3g}, must be {relation.accepted}"
    return _reason_sentence(outcome)


def _reason_sentence(outcome: Outcome) -> str:
    if not outcome.reasons:
        return f"{outcome.name} is as expected" if outcome.verdict.green else outcome.name
    reason, *_logs = outcome.reasons[0].splitlines() or [""]
    return f"{outcome.name}: {reason}"


def _distance(judgement: Judgement) -> float:
    """Return how far off it is, as a share; what must not be at all is the farthest."""
    off = off_baseline(judgement)
    return math.inf if off is None else abs(off)


def _off_sentence(judgement: Judgement) -> str:
    info, off = metric_info(judgement.metric), off_baseline(judgement)
    assert info is not None
    assert judgement.measured is not None
    figures = f"{number(judgement.measured)} {info.unit}".rstrip()
    if judgement.limit is not None:
        figures += f", {info.bound} {number(judgement.limit)}"
    if off is None:
        return f": {info.label}: {figures}"
    stored = judgement.against if judgement.baseline is not None else "its limit"
    if verb := VERBS.get(info.name):
        return f" {verb} {percent(abs(off))} {'fewer' if off < 0 else 'more'} records/s than {stored} ({figures})"
    return f": {info.label} is {percent(abs(off))} {'below' if off < 0 else 'above'} {stored} ({figures})"


def scenario_message(outcome: Outcome, measurement: Measurement, profile: Profile | None, again: Again = USUAL) -> str:
    """Return the message of a scenario's verdict: a sentence, then every judgement that is not green."""
    profile_text = f"{profile.name} ({profile.path})" if profile else "none matches this target and machine"
    lines = [*scenario_lines(outcome, measurement), f"  profile    {profile_text}"]
    partly = outcome.verdict is Verdict.INVALID and bool(outcome.judgements)
    lines += [PARTLY_NEXT] if partly else _next_step(outcome, f"-k {outcome.name}", again)
    return "\n".join(lines)


def scenario_lines(outcome: Outcome, measurement: Measurement) -> list[str]:
    """Return the lines of such a message up to what the scenario was held against."""
    lines = [
        f"{outcome.verdict.value} {scenario_sentence(outcome)}",
        f"  scenario   {measurement.scenario.summary}",
    ]
    partly = outcome.verdict is Verdict.INVALID and bool(outcome.judgements)
    if not outcome.verdict.sound and not partly:
        lines += [f"  reason     {reason}" for reason in outcome.reasons]
    for judgement in outcome.judgements:
        if not judgement.verdict.green:
            lines += _judgement_lines(judgement, rounds=len(measurement.rounds))
    unmeasured = not any(j.measured is not None for j in outcome.judgements)
    if outcome.verdict is Verdict.REGRESSED or (outcome.verdict is Verdict.INCONCLUSIVE and unmeasured):
        told = [f"{judgement.metric}: {judgement.reason}" for judgement in outcome.judgements]
        beside = outcome.reasons[:-1] if outcome.first_look else outcome.reasons
        lines += [f"  reason     {reason}" for reason in beside if reason not in told]
    found = outcome.more_hosts
    if found is not None and not any(found.words in line for line in lines):
        lines.append(f"  hosts      {found.words}")
    if outcome.first_look is not None:
        lines.append(f"  looks      {outcome.reasons[-1]}; first measurement: {looked(outcome.first_look)}")
    return lines


def relation_message(outcome: Outcome, relation: Relation, again: Again = USUAL) -> str:
    """Return the message of a relation's verdict: a sentence, then over a range every step that is not green."""
    lines = [f"{outcome.verdict.value} {relation_sentence(outcome, relation)}", f"  claim      {relation.claim}"]
    if all(judgement.measured is None for judgement in outcome.judgements):
        lines += [f"  reason     {reason}" for reason in outcome.reasons]
    elif isinstance(relation, RangeRelation):
        for pair, step in zip(relation.steps, outcome.steps, strict=True):
            if not step.verdict.green:
                lines += _ratio_lines(pair, step) or [f"  step       {pair.name}: {'; '.join(step.reasons)}"]
    elif isinstance(relation, PairRelation):
        lines += _ratio_lines(relation, outcome)
    if outcome.first_look is not None:
        lines.append(f"  looks      {outcome.reasons[-1]}; first measurement: {looked(outcome.first_look)}")
    lines += _next_step(outcome, f"--family {relation.family}", again)
    return "\n".join(lines)


def _ratio_lines(relation: PairRelation, outcome: Outcome) -> list[str]:
    lines = []
    for judgement in outcome.judgements:
        expected = f"{number(relation.at_least)} to {number(relation.at_most)} x {relation.over}"
        off = off_baseline(judgement)
        if judgement.measured is None or judgement.interval is None or off is None:
            continue
        low, high = judgement.interval
        end = "maximum" if judgement.limit == relation.at_most else "minimum"
        lines += [
            f"  metric     {relation.metric.name}: {relation.of} / {relation.over}",
            f"  measured   {judgement.measured:.3g} (median of {len(outcome.rounds)} {_rounds(outcome)}, "
            f"spread {spread_text(judgement.spread)}, {low:.3g} .. {high:.3g})",
            f"  expected   {expected}",
            f"  off        {off * 100:+.1f} % from the {end}",
        ]
        if judgement.reason:
            lines.append(f"  reason     {judgement.reason}")
    return lines


def _rounds(outcome: Outcome) -> str:
    return "paired rounds" if outcome.paired else "rounds, unpaired: on another cluster than the other scenario's"


def no_profile_lines(
    outcomes: Sequence[Outcome],
    relations: Sequence[Outcome],
    facts: Mapping[str, str],
    profiles: Mapping[str, Profile],
    command: str,
) -> list[str]:
    """Return what a run on a machine without thresholds of its own found, why there are none, and what records them.

    `facts`: the run's, by the names that profiles state; `command`: what records thresholds like this run.
    """
    near = [
        f"{profile.name} fits but for {key}: {profile.facts[key]} there, {facts.get(key) or 'unknown'} here"
        for profile, key in all_but_one(profiles, facts)
    ]
    machine = ", ".join(f"{key} {value}" for key, value in facts.items())
    return [
        "No stored thresholds apply to this machine, so the figures above are a measurement and no verdict.",
        f"  relations  {_share(relations, PASSED, 'hold')}" if relations else "  relations  none was judged",
        f"  load       {_share(outcomes, VALID, 'were measured with a valid load')}",
        f"  machine    {machine}",
        *(f"  profile    {text}" for text in near),
        f"  next       {command}    (repeats the run, goes on where it was stopped, then proposes thresholds)",
    ]


def _share(outcomes: Sequence[Outcome], wanted: Collection[Verdict], are: str) -> str:
    """Return how many have a verdict that is wanted, and the others: 7 of 8 hold; the others: acks-cpu INCONCLUSIVE."""
    others = [f"{outcome.name} {outcome.verdict.value}" for outcome in outcomes if outcome.verdict not in wanted]
    if not others:
        return f"all {len(outcomes)} {are}"
    return f"{len(outcomes) - len(others)} of {len(outcomes)} {are}; the others: {', '.join(others)}"


def _judgement_lines(judgement: Judgement, rounds: int) -> list[str]:
    info = metric_info(judgement.metric)
    head = f"  {judgement.verdict.value.lower():<10} {judgement.metric}"
    if info and judgement.measured is not None and judgement.limit is not None and judgement.interval is None:
        lines = [
            f"{head} ({info.label})",
            f"  measured   {number(judgement.measured)} {info.unit} (median of {rounds} rounds)",
            f"  expected   {info.bound} {number(judgement.limit)} {info.unit}",
        ]
        return lines + ([f"  reason     {judgement.reason}"] if judgement.reason else [])
    if info is None or judgement.measured is None or judgement.baseline is None or judgement.interval is None:
        return [f"{head}: {judgement.reason}"]
    assert judgement.limit is not None
    assert judgement.tolerance is not None
    low, high = judgement.interval
    off = off_baseline(judgement) or 0.0
    lines = [
        f"{head} ({info.label})",
        f"  measured   {number(judgement.measured)} {info.unit} (centre of {rounds} rounds, "
        f"spread {spread_text(judgement.spread)}, {number(low)} .. {number(high)})",
        f"  expected   {number(judgement.baseline)} {info.unit}, {_allowance(judgement)}: "
        f"{info.bound} {number(judgement.limit)}",
        f"  off        {off * 100:+.1f} % from {judgement.against.replace('its', 'the')}",
    ]
    if judgement.reason:
        lines.append(f"  reason     {judgement.reason}")
    return lines


def looked(outcome: Outcome) -> str:
    """Return what a look measured where it was red: records_per_s 700 (at least 900)."""
    found = []
    for judgement in outcome.judgements:
        if judgement.verdict is Verdict.REGRESSED and judgement.measured is not None and judgement.limit is not None:
            info = metric_info(judgement.metric)
            bound = info.bound if info else "at least"
            what = f"{judgement.metric} {judgement.step}".rstrip()
            found.append(f"{what} {number(judgement.measured)} ({bound} {number(judgement.limit)})")
    return ", ".join(found) or outcome.verdict.value


def _allowance(judgement: Judgement) -> str:
    """Return what a metric may lie off its baseline, and why."""
    assert judgement.tolerance is not None
    stated = f"tolerance {percent(judgement.tolerance)}"
    if judgement.reach is None or judgement.reach <= judgement.tolerance:
        return stated
    return f"{stated}, widened to {percent(judgement.reach)} by the noise between runs"


def _next_step(outcome: Outcome, usual: str, asked: Again) -> list[str]:
    if outcome.verdict not in NEXT_STEP:
        return []
    warming = outcome.verdict is Verdict.INCONCLUSIVE and any(WARMING in reason for reason in outcome.reasons)
    step = NEXT_STEP_WARMING if warming else NEXT_STEP[outcome.verdict]
    rounds = max(MORE_ROUNDS, 2 * asked.rounds)
    again, more, longer = (
        asked.command(usual, option) for option in ("", f" --rounds {rounds}", " --broker-warmup 300")
    )
    baseline = f"make baseline{asked.given}"
    return ["  next       " + step.format(again=again, more=more, longer=longer, baseline=baseline)]
