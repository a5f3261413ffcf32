"""The words of a comparison: the effect with its interval, and what to make of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.judge.compare.paths import PATHS
from perfgate.judge.compare.reached import NEVER
from perfgate.judge.compare.short import GROWING
from perfgate.judge.messages import WARMING, percent
from perfgate.model import AS_USUAL, ComparisonOutcome, Deciding, Effect, MetricEffect

SHOWN = (
    "records_per_s",
    "broker_cpu_us_per_record",
    "latency_ms.p50",
    "latency_ms.p99",
    "end_to_end_latency_ms.p99",
    "client_cpu_us_per_record",
)
"""The secondary metrics that are worth a line at the terminal, when they are notable; the report has all."""
MEANING = {
    Effect.BROKEN: "with the change the brokers do not do what they do without it",
    Effect.SLOWER: "the change makes it slower, or worse at the same rate",
    Effect.FASTER: "the change makes it faster",
    Effect.SAME: "no difference that matters: the interval lies within the margin either way",
    Effect.INCONCLUSIVE: "not decided",
    Effect.INVALID: "a load was not valid, so nothing was judged",
}


def signed(share: float) -> str:
    """Return a share as a signed percentage: -0.079 as -7.9 %."""
    return f"{share * 100:+.1f} %"


def effect_text(effect: MetricEffect) -> str:
    """Return a metric's effect in one line: -7.9 % records/s, 95 % interval -9.6 .. -6.1 %."""
    low, high = effect.interval
    what = effect.metric.unit if effect.metric.name == "records_per_s" else effect.metric.name
    return f"{signed(effect.estimate)} {what}, 95 % interval {low * 100:+.1f} .. {high * 100:+.1f} %"


def notable_lines(outcome: ComparisonOutcome) -> list[str]:
    """Return a line for each secondary metric that differs and that most people ask for."""
    return [
        f"{effect_text(other)} ({'worse' if other.worse else 'better'})"
        for other in outcome.others
        if other.notable and other.metric.name in SHOWN and other.verdict is None
    ]


def alone_lines(outcome: ComparisonOutcome) -> list[str]:
    """Return what each metric says by itself, where a run is asked to decide by several."""
    deciding = [(one.verdict, one) for one in (outcome.primary, *outcome.others) if one and one.verdict]
    return [f"{verdict.value} by itself: {effect_text(one)}" for verdict, one in deciding if len(deciding) > 1]


def decided_by(decides: Deciding) -> str:
    """Return what decides, in one line; empty where a run asks for nothing else than usual."""
    if decides == AS_USUAL:
        return ""
    shared = "; they share the chance of a wrong verdict" if len(decides.metrics) > 1 else ""
    return f"{', '.join(decides.metrics) or 'as usual'}, the same within {decides.margin * 100:g} %{shared}"


def comparison_message(outcome: ComparisonOutcome, change: str) -> str:
    """Return what became of one scenario: verdict and effect, what was spent, what to do next."""
    meaning = MEANING[outcome.effect]
    found = effect_text(outcome.primary) if outcome.primary else meaning
    if outcome.effect is Effect.SLOWER and outcome.reasons:
        found = outcome.reasons[0]  # something else than what usually decides tipped the scale
    lines = [f"{outcome.effect.value} {outcome.name} with {change!r}: {found}"]
    if outcome.primary:
        lines.append(f"  meaning    {meaning}")
        lines.append(
            f"  measured   {outcome.pairs} pairs in {outcome.units} units, {outcome.minutes:.1f} min"
            + (f"; a slowdown of {percent(outcome.detectable)} would have shown" if outcome.detectable else "")
        )
    if outcome.scatter:
        lines.append(f"  scatter    {outcome.scatter}")
    if words := decided_by(outcome.decides):
        lines.append(f"  decides    {words}")
    if outcome.paths_ms:
        before, after = outcome.paths_ms
        lines.append(f"  paths      round trip {before:.2f} ms as declared, {after:.2f} ms to the other cluster")
    lines += [f"  alone      {line}" for line in alone_lines(outcome)]
    lines += [f"  also       {line}" for line in notable_lines(outcome)]
    lines += [f"  reason     {reason}" for reason in outcome.reasons]
    by_time = not any(
        reason.startswith(PATHS) or any(words in reason for words in (NEVER, WARMING, GROWING))
        for reason in outcome.reasons
    )
    if outcome.effect is Effect.INCONCLUSIVE and by_time:
        lines.append(f"  next       {_more(outcome)}")
    elif any(GROWING in reason for reason in outcome.reasons):
        lines.append("  next       compare at a rate that the brokers take as declared: --set load.rate=N")
    if outcome.effect is Effect.INVALID:
        lines.append("  next       mend the reason above, then compare again")
    return "\n".join(lines)


def _more(outcome: ComparisonOutcome) -> str:
    if outcome.more_minutes is None:
        return "give it more time (--budget): a decision needs more units"
    return (
        f"about {max(1.0, outcome.more_minutes):.0f} min more would tell: raise --budget by that much for this scenario"
    )


def recommendation(outcomes: Sequence[ComparisonOutcome], change: str, unfinished: str = "") -> str:
    """Return in plain words what all scenarios together say about the change.

    `unfinished`: why the run did not come to its end; what it did not get to may be slower.
    """
    names = {effect: [o.name for o in outcomes if o.effect is effect] for effect in Effect}
    if not outcomes:
        return f"Nothing can be said about {change!r}: no scenario was compared."
    if names[Effect.SLOWER] or names[Effect.BROKEN]:
        gains = f"; it gains in {', '.join(names[Effect.FASTER])}" if names[Effect.FASTER] else ""
        return f"Do not apply {change!r} as it is: it makes {_worst(outcomes)} worse{gains}."
    open_rows = names[Effect.INVALID] + names[Effect.INCONCLUSIVE]
    if open_rows:
        unknown = f"nothing certain about {', '.join(open_rows)}"
        return f"Do not decide on {change!r} yet: {unknown}; no scenario is known to get slower."
    if unfinished:
        told = ", ".join(f"{o.name} {o.effect.value}" for o in outcomes)
        return f"Do not decide on {change!r} yet: {unfinished}; so far: {told}."
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
    told = ["; ".join(text.partition("\n")[0] for text in texts) for texts in why]  # without a broker's log
    return ", ".join(f"{o.name} ({words})" if words else o.name for o, words in zip(red, told, strict=True))
