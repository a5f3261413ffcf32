"""Messages of verdicts: what was measured, what it was judged against, and what to do next. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from perfgate.judge.claim import notes_on
from perfgate.judge.phrases import GROWING, NEVER, PATHS, WARMING, number, percent
from perfgate.judge.sequential import FEWEST_UNITS
from perfgate.judge.thresholds import all_but_one
from perfgate.model import (
    AS_USUAL,
    ComparisonOutcome,
    Deciding,
    Effect,
    Judgement,
    Measurement,
    MetricEffect,
    Outcome,
    PairRelation,
    Profile,
    RangeRelation,
    Relation,
    Verdict,
    metric_info,
)
from perfgate.model.command import command_line, without
from perfgate.model.counting import counted
from perfgate.model.pages import page

PASSED = (Verdict.PASS, Verdict.IMPROVED)
VALID = (*PASSED, Verdict.MISSING, Verdict.REGRESSED)

NEXT_STEP = {
    Verdict.REGRESSED: (
        "run the scenario again alone ({again}); if it stays, look at what changed since the last green run: "
        "run.json keeps the commit, versions, settings and broker logs of both. If the new figure is meant, "
        "record it: {thresholds}"
    ),
    Verdict.BROKEN: (
        "the brokers failed, which no figure can be worse than: read their logs (beside run.json), then {again}; what "
        "the load generator or the machine does is INVALID instead"
    ),
    Verdict.INCONCLUSIVE: "the machine was too noisy to say: quiet it and run again {more}",
    Verdict.INVALID: "the load itself was not valid, so nothing was judged: mend the reason above, then {again}",
    Verdict.MISSING: "{lacks}; record it: {baseline} ({page})",
}

MORE_ROUNDS = 9
"""Rounds of a repeat that averages out noise, or twice as many as there were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """The command that repeats a run of so many `rounds`, with the options that were `given`.

    `recording`: those that a baseline takes. `selection`: those that select only what a message is about; `driver`: if
    not the system's usual. `with_fault`: scenarios are declared with their number of rounds.
    """

    given: tuple[str, ...] = ()
    recording: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    rounds: int = 0
    with_fault: bool = False

    def command(self, usual: Sequence[str], *options: str) -> str:
        """The command; `usual`: what selects it where there is no `selection`."""
        given = without(self.given, (*self.driver, *options))
        return command_line("gate", *given, *(self.selection or usual), *self.driver, *options)


USUAL = Again()
OF_FOLDERS = ("--thresholds=", "--results=")
VERBS = {"records_per_s": "sends", "received_records_per_s": "receives"}
NEXT_STEP_WARMING = "nothing is known of warm brokers: give them longer before the rounds ({longer})"
PARTLY_NEXT = "quiet the machine and run again; all other metrics of the scenario were judged"


def spread_text(width: float | None) -> str:
    """The spread as a percentage; a dash where there is none, as of a median of 0."""
    return "-" if width is None else percent(width)


def off_baseline(judgement: Judgement) -> float | None:
    """The share by which the figure is off its baseline (relations: an end of its range)."""
    expected = judgement.baseline if judgement.baseline is not None else judgement.limit
    if judgement.measured is None or not expected:
        return None
    return judgement.measured / expected - 1


def scenario_sentence(outcome: Outcome) -> str:
    """The metric farthest off, as "batch-1k sends 57.3 % fewer records/s than its baseline (...)", or the reason."""
    if outcome.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        measured = [j for j in outcome.judgements if j.verdict is outcome.verdict and j.measured is not None]
        if measured:
            farthest = max(measured, key=lambda j: math.inf if (off := off_baseline(j)) is None else abs(off))
            return outcome.name + _off_sentence(farthest)
    return _reason_sentence(outcome)


def relation_sentence(outcome: Outcome, relation: Relation) -> str:
    """The ratio and its bounds, or the reason where there is none."""
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
    """A sentence, then every judgement that is not green."""
    profile_text = f"{profile.name} ({profile.path})" if profile else "none matches this target and machine"
    step = PARTLY_NEXT if _partly_judged(outcome) else _next_step(outcome, ("-k", outcome.name), again, profile)
    return "\n".join([*scenario_lines(outcome, measurement), *_fields(profile=profile_text, next=step)])


def scenario_lines(outcome: Outcome, measurement: Measurement) -> list[str]:
    """The lines of such a message up to what the scenario was judged against."""
    lines = [
        f"{outcome.verdict.value} {scenario_sentence(outcome)}",
        *_fields(scenario=measurement.scenario.summary),
    ]
    if not outcome.verdict.sound and not _partly_judged(outcome):
        lines += _fields(reason=outcome.reasons)
    for judgement in outcome.judgements:
        if not judgement.verdict.green:
            lines += _judgement_lines(judgement, rounds=len(measurement.rounds))
    unmeasured = not any(j.measured is not None for j in outcome.judgements)
    if outcome.verdict is Verdict.REGRESSED or (outcome.verdict is Verdict.INCONCLUSIVE and unmeasured):
        known = notes_on(outcome.judgements)
        others = outcome.reasons[:-1] if outcome.first_look else outcome.reasons
        lines += _fields(reason=[reason for reason in others if reason not in known])
    hosts = outcome.more_hosts.words if outcome.more_hosts else ""
    if not any(hosts in line for line in lines):
        lines += _fields(hosts=hosts)
    return [*lines, *_fields(looks=_looks(outcome))]


def _fields(**texts: str | Sequence[str]) -> list[str]:
    return [
        f"  {name:<10} {text}"
        for name, several in texts.items()
        for text in ([several] if isinstance(several, str) else several)
        if text
    ]


def _partly_judged(outcome: Outcome) -> bool:
    return outcome.verdict is Verdict.INVALID and bool(outcome.judgements)


def _looks(outcome: Outcome) -> str:
    if outcome.first_look is None:
        return ""
    return f"{outcome.reasons[-1]}; first measurement: {_figures_in_red(outcome.first_look)}"


def relation_message(outcome: Outcome, relation: Relation, again: Again = USUAL) -> str:
    """A sentence, then the ratio, or over a range every step that is not green."""
    lines = [f"{outcome.verdict.value} {relation_sentence(outcome, relation)}", *_fields(claim=relation.claim)]
    if all(judgement.measured is None for judgement in outcome.judgements):
        lines += _fields(reason=outcome.reasons)
    elif isinstance(relation, RangeRelation):
        for pair, step in zip(relation.steps, outcome.steps, strict=True):
            if not step.verdict.green:
                lines += _ratio_lines(pair, step) or _fields(step=f"{pair.name}: {'; '.join(step.reasons)}")
    elif isinstance(relation, PairRelation):
        lines += _ratio_lines(relation, outcome)
    lines += _fields(looks=_looks(outcome), next=_next_step(outcome, ("--family", relation.family), again))
    return "\n".join(lines)


def _ratio_lines(relation: PairRelation, outcome: Outcome) -> list[str]:
    lines = list[str]()
    rounds = "paired rounds" if outcome.paired else "rounds, unpaired: measured minutes apart from the other scenario's"
    for judgement in outcome.judgements:
        off = off_baseline(judgement)
        if judgement.measured is None or judgement.interval is None or off is None:
            continue
        low, high = judgement.interval
        end = "maximum" if judgement.limit == relation.at_most else "minimum"
        lines += _fields(
            metric=f"{relation.metric.name}: {relation.of} / {relation.over}",
            measured=f"{judgement.measured:.3g} (median of {len(outcome.rounds)} {rounds}, "
            f"spread {spread_text(judgement.spread)}, {low:.3g} .. {high:.3g})",
            expected=f"{number(relation.at_least)} to {number(relation.at_most)} x {relation.over}",
            off=f"{off * 100:+.1f} % from the {end}",
            reason=judgement.reason,
        )
    return lines


def no_profile_lines(
    outcomes: Sequence[Outcome],
    relations: Sequence[Outcome],
    facts: Mapping[str, str],
    profiles: Mapping[str, Profile],
    command: str,
) -> list[str]:
    """The summary of a run (`facts`) without thresholds for its machine, and the `command` that records them."""
    near = [
        f"{profile.name} fits but for {key}: {profile.facts[key]} there, {facts.get(key) or 'unknown'} here"
        for profile, key in all_but_one(profiles, facts)
    ]
    return [
        "No stored thresholds apply to this machine, so the figures above are a measurement and no verdict.",
        *_fields(
            relations=_share(relations, PASSED, "hold") if relations else "none was judged",
            load=_share(outcomes, VALID, "were measured with a valid load"),
            machine=", ".join(f"{key} {value}" for key, value in facts.items()),
            profile=near,
            next=f"{command}    (repeats the run, goes on where it was stopped, then proposes thresholds)",
        ),
    ]


def _share(outcomes: Sequence[Outcome], wanted: Collection[Verdict], are: str) -> str:
    others = [f"{outcome.name} {outcome.verdict.value}" for outcome in outcomes if outcome.verdict not in wanted]
    if not others:
        return f"all {len(outcomes)} {are}"
    return f"{len(outcomes) - len(others)} of {len(outcomes)} {are}; the others: {', '.join(others)}"


def _judgement_lines(judgement: Judgement, rounds: int) -> list[str]:
    info = metric_info(judgement.metric)
    head = f"  {judgement.verdict.value.lower():<10} {judgement.metric}"
    if info is None or judgement.measured is None:
        return [f"{head}: {judgement.reason}"]
    measured = f"{number(judgement.measured)} {info.unit}"
    if judgement.interval is None and judgement.limit is not None:
        measured += f" (median of {counted(rounds, 'round')})"
        expected, off = f"{info.bound} {number(judgement.limit)} {info.unit}", ""
    elif judgement.interval is None or judgement.baseline is None:
        return [f"{head}: {judgement.reason}"]
    else:
        assert judgement.limit is not None
        low, high = judgement.interval
        spread = spread_text(judgement.spread)
        measured += f" (centre of {counted(rounds, 'round')}, spread {spread}, {number(low)} .. {number(high)})"
        expected = f"{number(judgement.baseline)} {info.unit}, {_allowance(judgement)}: "
        expected += f"{info.bound} {number(judgement.limit)}"
        off = f"{(off_baseline(judgement) or 0.0) * 100:+.1f} % from {judgement.against.replace('its', 'the')}"
    lines = _fields(measured=measured, expected=expected, off=off, reason=judgement.reason)
    return [f"{head} ({info.label})", *lines]


def _figures_in_red(outcome: Outcome) -> str:
    texts = []
    for judgement in outcome.judgements:
        if judgement.verdict is Verdict.REGRESSED and judgement.measured is not None and judgement.limit is not None:
            info = metric_info(judgement.metric)
            bound = info.bound if info else "at least"
            name = f"{judgement.metric} {judgement.step}".rstrip()
            texts.append(f"{name} {number(judgement.measured)} ({bound} {number(judgement.limit)})")
    return ", ".join(texts) or outcome.verdict.value


def _allowance(judgement: Judgement) -> str:
    assert judgement.tolerance is not None
    stated = f"tolerance {percent(judgement.tolerance)}"
    if judgement.reach is None or judgement.reach <= judgement.tolerance:
        return stated
    return f"{stated}, widened to {percent(judgement.reach)} by the noise between runs"


def lacks_limits(profile: Profile | None, what: str = "it") -> str:
    if profile is None:
        return "no threshold is stored for this target and machine"
    return f"profile {profile.name} has no limits for {what}"


def _next_step(outcome: Outcome, usual: Sequence[str], asked: Again, profile: Profile | None = None) -> str:
    if outcome.verdict not in NEXT_STEP:
        return ""
    warming = outcome.verdict is Verdict.INCONCLUSIVE and any(WARMING in reason for reason in outcome.reasons)
    step = NEXT_STEP_WARMING if warming else NEXT_STEP[outcome.verdict]
    again, rounds = asked.command(usual), str(max(MORE_ROUNDS, 2 * asked.rounds))
    more = f"({again})" if asked.with_fault else f"with more rounds ({asked.command(usual, '--rounds', rounds)})"
    return step.format(
        again=again,
        more=more,
        longer=asked.command(usual, "--broker-warmup", "300"),
        lacks=lacks_limits(profile),
        baseline=command_line("baseline", *asked.recording),
        page=page("thresholds"),
        thresholds=command_line("thresholds", *(option for option in asked.given if option.startswith(OF_FOLDERS))),
    )


SHOWN = (
    "records_per_s",
    "broker_cpu_us_per_record",
    "latency_ms.p50",
    "latency_ms.p99",
    "end_to_end_latency_ms.p99",
    "client_cpu_us_per_record",
)
"""The secondary metrics with a line at the terminal when they are notable; the report has all."""
MEANING = {
    Effect.BROKEN: "with the change the brokers do not do what they do without it",
    Effect.SLOWER: "the change makes it slower, or worse at the same rate",
    Effect.FASTER: "the change makes it faster",
    Effect.SAME: "no difference that matters: the interval lies within the margin either way",
    Effect.INCONCLUSIVE: "not decided",
    Effect.INVALID: "a load was not valid, so nothing was judged",
}


def signed(share: float) -> str:
    return f"{share * 100:+.1f} %"


def effect_text(effect: MetricEffect) -> str:
    """A metric's effect in one line: -7.9 % records/s, 95 % interval -9.6 .. -6.1 %."""
    low, high = effect.interval
    what = effect.metric.unit if effect.metric.name == "records_per_s" else effect.metric.name
    return f"{signed(effect.estimate)} {what}, 95 % interval {low * 100:+.1f} .. {high * 100:+.1f} %"


def notable_lines(outcome: ComparisonOutcome) -> list[str]:
    """A line for each shown secondary metric that differs."""
    return [
        f"{effect_text(other)} ({'worse' if other.worse else 'better'})"
        for other in outcome.others
        if other.notable and other.metric.name in SHOWN and other.verdict is None
    ]


def alone_lines(outcome: ComparisonOutcome) -> list[str]:
    """Each metric's own verdict, where a run is asked to decide by several."""
    deciding = [(effect.verdict, effect) for effect in (outcome.primary, *outcome.others) if effect and effect.verdict]
    return [f"{verdict.value} by itself: {effect_text(effect)}" for verdict, effect in deciding if len(deciding) > 1]


def decided_by(decides: Deciding) -> str:
    """What decides; empty where a run asks for nothing else than usual."""
    if decides == AS_USUAL:
        return ""
    shared = "; they share the chance of a wrong verdict" if len(decides.metrics) > 1 else ""
    return f"{', '.join(decides.metrics) or 'as usual'}, the same within {decides.margin * 100:g} %{shared}"


def pairs_in_units(outcome: ComparisonOutcome) -> str:
    return f"{counted(outcome.pairs, 'pair')} in {counted(outcome.units, 'unit')}"


def comparison_message(outcome: ComparisonOutcome, change: str) -> str:
    meaning = MEANING[outcome.effect]
    headline = effect_text(outcome.primary) if outcome.primary else meaning
    if outcome.effect is Effect.SLOWER and outcome.reasons:
        headline = outcome.reasons[0]  # another cause than the deciding metric
    measured = f"{pairs_in_units(outcome)}, {outcome.minutes:.1f} min"
    if outcome.detectable:
        measured += f"; a slowdown of {percent(outcome.detectable)} would have shown"
    paths = "round trip {:.2f} ms as declared, {:.2f} ms to the other cluster"
    lines = _fields(
        meaning=meaning if outcome.primary else "",
        measured=measured if outcome.primary else "",
        scatter=outcome.scatter,
        decides=decided_by(outcome.decides),
        paths=paths.format(*outcome.paths_ms) if outcome.paths_ms else "",
        alone=alone_lines(outcome),
        also=notable_lines(outcome),
        reason=outcome.reasons,
        next=_next_comparison(outcome),
    )
    return "\n".join([f"{outcome.effect.value} {outcome.name} with {change!r}: {headline}", *lines])


def _next_comparison(outcome: ComparisonOutcome) -> list[str]:
    steps = []
    by_time = not any(
        reason.startswith(PATHS) or any(words in reason for words in (NEVER, WARMING, GROWING))
        for reason in outcome.reasons
    )
    if outcome.effect is Effect.INCONCLUSIVE and by_time:
        by_that = "raise --budget by that much for this scenario"
        if (minutes := outcome.more_minutes) is not None:
            steps.append(f"about {max(1.0, minutes):.0f} min more would tell: {by_that}")
        elif outcome.units:
            least = math.ceil(FEWEST_UNITS * outcome.minutes / outcome.units)
            steps.append(f"a decision needs more units, {FEWEST_UNITS} more take about {max(1, least)} min: {by_that}")
        else:
            steps.append("give it more time (--budget): a decision needs more units")
    elif any(GROWING in reason for reason in outcome.reasons):
        steps.append("compare at a rate that the brokers take as declared: --set load.rate=N")
    if outcome.effect is Effect.INVALID:
        steps.append("mend the reason above, then compare again")
    return steps


def recommendation(outcomes: Sequence[ComparisonOutcome], change: str, unfinished: str = "") -> str:
    """What all scenarios show of the change. `unfinished`: why the run ended early; the rest may be slower."""
    names = {effect: [o.name for o in outcomes if o.effect is effect] for effect in Effect}
    if not outcomes:
        return f"Nothing can be said about {change!r}: no scenario was compared."
    if names[Effect.SLOWER] or names[Effect.BROKEN]:
        gains = f"; it gains in {', '.join(names[Effect.FASTER])}" if names[Effect.FASTER] else ""
        return f"Do not apply {change!r} as it is: it makes {_worst(outcomes)} worse{gains}."
    undecided = names[Effect.INVALID] + names[Effect.INCONCLUSIVE]
    if undecided:
        unknown = f"nothing certain about {', '.join(undecided)}"
        return f"Do not decide on {change!r} yet: {unknown}; no scenario is known to get slower."
    if unfinished:
        known = ", ".join(f"{o.name} {o.effect.value}" for o in outcomes)
        return f"Do not decide on {change!r} yet: {unfinished}; so far: {known}."
    costs = sorted(
        {o.metric.label for x in outcomes for o in x.others if o.notable and o.worse and o.metric.name in SHOWN}
    )
    but = f" But look at {', '.join(costs)}, which got worse." if costs else ""
    if names[Effect.FASTER]:
        return f"Apply {change!r}: faster in {', '.join(names[Effect.FASTER])}, slower in none.{but}"
    within = f"by more than {outcomes[0].decides.margin * 100:g} %"
    what = f"no scenario's {' or '.join(outcomes[0].decides.metrics) or 'speed'}"
    return f"{change!r} changes {what} {within}: apply it for other reasons, or leave it.{but}"


def _worst(outcomes: Sequence[ComparisonOutcome]) -> str:
    red = [outcome for outcome in outcomes if outcome.effect.red]
    why = [outcome.reasons or ((effect_text(outcome.primary),) if outcome.primary else ()) for outcome in red]
    texts = ["; ".join(reason.partition("\n")[0] for reason in reasons) for reasons in why]  # without a broker's log
    return ", ".join(f"{o.name} ({words})" if words else o.name for o, words in zip(red, texts, strict=True))
