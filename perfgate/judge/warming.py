"""Rules that find brokers that were still warming up, over the rounds of a block. Pure.

Two signs: CPU of a JVM's compiler threads, in every single round; and, where that cannot be read or is over, the growth
of a straight line over the rounds' rate or broker CPU per record (logarithms, least squares) beyond its standard error,
from the pooled noise of all scenarios: three rounds show little of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perfgate.judge.claims.more_hosts import RATES
from perfgate.judge.phrases import WARMING
from perfgate.judge.rounds import arms_of, values_of
from perfgate.model import COMPILING, METRICS, Comparison, Measurement, MetricInfo, Round
from perfgate.model.flaw import Doubt
from perfgate.model.summary import centre

LEAST_GROWTH = 0.05
"""A trend smaller than this, from the first round to the last, moves a verdict less than the noise does."""
FALSE_TREND = 0.005
"""Chance that rounds of a scenario and metric that only scatter (normally, independently) seem to grow."""
FALSE_GROWTH = 0.01
"""The same for a scenario that is judged alone because it is red."""
MOST_BY_COMPILING = 4.0
"""At shares of 40 to 70 % brokers sent a third to 0.4 of what they send (docs/evidence/measurement.md)."""
WARM = "warm-up"
COMPILE_SHARE = "broker_compile_share.max"
WATCHED = ("records_per_s", "broker_cpu_us_per_record")


@dataclass(frozen=True, slots=True)
class Trend:
    """By how much a metric got better from first to last round, a logarithm; sum of squares off the line."""

    growth: float
    residual: float
    freedom: int


def trend(values: Sequence[float], better: str) -> Trend:
    """The trend of positive `values` in the order of their rounds."""
    count = len(values)
    logs = [math.log(value) for value in values]
    centre, middle = statistics.fmean(logs), (count - 1) / 2
    across = count * (count**2 - 1) / 12
    slope = sum((i - middle) * (y - centre) for i, y in enumerate(logs)) / across
    residual = sum((y - centre - slope * (i - middle)) ** 2 for i, y in enumerate(logs))
    sign = 1 if better == "higher" else -1
    return Trend(growth=sign * slope * (count - 1), residual=residual, freedom=count - 2)


def still_growing(values: Sequence[float], better: str, least: float) -> float:
    """The share by which values got better, if more than `least`: each, or a line through them; else 0.0."""
    if len(values) < 3 or not all(0 < value < math.inf for value in values):
        return 0.0
    line, sign = trend(values, better), 1 if better == "higher" else -1
    if not line.growth > math.log1p(least):
        return 0.0
    ordered = all(sign * (after - before) > 0 for before, after in pairwise(values))
    error = _growth_error(math.sqrt(line.residual / line.freedom), len(values))
    if not ordered:
        from scipy.special import stdtrit  # 0.2 s, which a run that measures nothing does not need

        ordered = line.growth > float(stdtrit(line.freedom, 1 - FALSE_GROWTH)) * error
    return math.expm1(line.growth) if ordered else 0.0


def growth_doubt(values: Sequence[float], metric: MetricInfo, least: float) -> tuple[Doubt, ...]:
    """A doubt about rounds that got better by more than `least`: the last, grown once more, is the best."""
    if not (growth := still_growing(values, metric.better, least)):
        return ()
    text = f"{WARMING}: it got {growth * 100:.0f} % better from the first round to the last"
    return (Doubt(kind=WARM, whose="brokers", text=text, factor=_carried(values, metric.sign, growth)),)


def compiling_factor(rounds: Sequence[Round], exponent: int = 1) -> float:
    """By which factor compiling brokers may be slower: by the core's part that their median share is."""
    share = statistics.median(r.metrics.get(COMPILE_SHARE, 0.0) for r in rounds) if rounds else 0.0
    if share <= COMPILING:
        return 1.0
    used = statistics.median(r.metrics.get("broker_cpu_cores.max", 1.0) for r in rounds)
    left = 1 - share * min(1.0, used)
    return min(left**-exponent if left > 0 else math.inf, MOST_BY_COMPILING)


def warming_doubts(measurement: Measurement, metric: MetricInfo) -> tuple[Doubt, ...]:
    """Doubts about warming brokers: the share of CPU for compiling explains as much, and a trend goes on once more."""
    if not measurement.warming:
        return ()
    factor, values = compiling_factor(measurement.rounds), values_of(measurement.rounds, metric.name)
    if growth := still_growing(values, metric.better, 0.0):
        factor = max(factor, _carried(values, metric.sign, growth))
    return (Doubt(kind=WARM, whose="brokers", text=f"{WARMING}: {measurement.warming}", factor=factor),)


def unsteady_doubts(measurement: Measurement, metric: MetricInfo) -> tuple[Doubt, ...]:
    """Doubts about a rate that was not steady as most windows opened: it goes on to grow as it did in all of them."""
    if metric.name not in RATES:
        return ()
    rounds = measurement.rounds
    cut_off = [r.growth for r in rounds if not r.steady and not r.not_sustained]
    if 2 * len(cut_off) <= len(rounds) or (growth := min(cut_off)) <= 1:
        return ()
    # The second half's rate over the window's, once more by the growth.
    factor = 2 * growth / (1 + growth) * growth
    text = (
        f"{WARMING}: in {len(cut_off)} of {len(rounds)} rounds the rate was not steady at the start, and grew by at "
        f"least {(growth - 1) * 100:.0f} % within the window"
    )
    return (Doubt(kind=WARM, whose="brokers", text=text, factor=factor),)


def _carried(values: Sequence[float], sign: int, growth: float) -> float:
    """How many times better than the rounds' centre the last round is when it grows once more."""
    best = values[-1] * (1 + growth) ** sign
    return float(max(1.0, (best / centre(values)) ** sign))


def each_better(rounds: Sequence[Round]) -> bool:
    """Whether a watched metric got clearly better, from round to round or by a line through them."""
    return any(
        still_growing([r.metrics[name] for r in rounds], METRICS[name].better, LEAST_GROWTH)
        for name in WATCHED
        if all(name in r.metrics for r in rounds)
    )


def _growth_error(sigma: float, count: int) -> float:
    """The standard error of the growth of a line over `count` rounds that scatter by `sigma` (logarithms)."""
    return (count - 1) * sigma * math.sqrt(12 / (count * (count**2 - 1)))


def growing(by_scenario: Mapping[str, Sequence[float]], better: str) -> dict[str, float]:
    """The scenarios, of as many values each, that grow by more than their error, alone or all together; as a share."""
    trends = {
        name: trend(values, better)
        for name, values in by_scenario.items()
        if len(values) > 2 and all(0 < value < math.inf for value in values)
    }
    freedom = sum(t.freedom for t in trends.values())
    if not freedom:
        return {}
    from scipy.special import stdtrit  # 0.2 s, which a run that measures nothing does not need

    count = max(len(values) for values in by_scenario.values())
    sigma = math.sqrt(sum(t.residual for t in trends.values()) / freedom)
    error = _growth_error(sigma, count)
    level = float(stdtrit(freedom, 1 - FALSE_TREND))
    together = statistics.fmean(t.growth for t in trends.values()) > level * error / math.sqrt(len(trends))
    return {
        name: math.expm1(t.growth)
        for name, t in trends.items()
        if t.growth > math.log1p(LEAST_GROWTH) and (together or t.growth > level * error)
    }


def still_warming(by_scenario: Mapping[str, Sequence[Round]]) -> dict[str, str]:
    """The scenarios whose rounds were measured on brokers that were still warming up, and the figures."""
    valid = {name: sound for name, rounds in by_scenario.items() if (sound := [r for r in rounds if not r.invalid])}
    signs: dict[str, list[str]] = {}
    for name, rounds in valid.items():
        shares = values_of(rounds, COMPILE_SHARE)
        if shares and statistics.median(shares) > COMPILING:
            texts = ", ".join(f"{share * 100:.0f}" for share in shares)
            signs.setdefault(name, []).append(f"{texts} % of a broker's CPU compiled its code")
    whole = max((len(rounds) for rounds in valid.values()), default=0)
    for metric in WATCHED:
        values = {
            name: [r.metrics[metric] for r in rounds]
            for name, rounds in valid.items()
            if len(rounds) == whole and all(metric in r.metrics for r in rounds)
        }
        for name, growth in growing(values, METRICS[metric].better).items():
            texts = ", ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values[name])
            unit = METRICS[metric].unit
            signs.setdefault(name, []).append(f"{texts} {unit} ({growth * 100:.0f} % better from first to last)")
    return {name: "; ".join(texts) for name, texts in signs.items()}


COLD = 3
"""Exponent, as what is not compiled yet is slower besides: a share of 11 % explains a factor of 1.4."""


def still_compiling(comparison: Comparison) -> str:
    """The side whose brokers still compiled in most rounds, which are not repeated for ever; else empty."""
    for side, measurement in arms_of(comparison):
        cold = sum(map(_is_cold, measurement.rounds))
        if 2 * cold > len(measurement.rounds):
            return (
                f"{side}: {WARMING}: in {cold} of {len(measurement.rounds)} rounds one spent more than "
                f"{COMPILING * 100:.0f} % of its CPU on compiling its own code; give them longer (--broker-warmup 300)"
            )
    return ""


def compile_doubts(comparison: Comparison) -> tuple[Doubt, ...]:
    """A doubt about a loss of candidate brokers that compiled in most rounds; the baseline's explain none."""
    rounds = comparison.candidate.rounds
    if 2 * sum(map(_is_cold, rounds)) <= len(rounds):
        return ()
    share = statistics.median(r.metrics.get(COMPILE_SHARE, 0.0) for r in rounds)
    text = f"candidate: {WARMING}: one spent {share * 100:.0f} % of its CPU on compiling its own code"
    return (Doubt(kind=WARM, whose="brokers", text=text, factor=compiling_factor(rounds, COLD)),)


def cold_units(comparison: Comparison) -> int:
    """After how many units brokers were last compiling in most rounds of a side: looks at these do not decide."""
    size, last = comparison.rounds_per_unit, 0
    for measurement in comparison.sides:
        cold = 0
        for count, r in enumerate(measurement.rounds, 1):
            cold += _is_cold(r)
            if 2 * cold > count and count % size == 0:
                last = max(last, count // size)
    return last


def _is_cold(r: Round) -> bool:
    return r.metrics.get(COMPILE_SHARE, 0.0) > COMPILING
