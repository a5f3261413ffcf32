"""Parts of a comparison: bursts of turns or blocks of whole rounds, and what ends them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from perfgate.load.schedule import LARGEST_GAP_S, SIDES, pace
from perfgate.measure.assembly import Finished, break_off_by, unmeasured
from perfgate.measure.bench import Bench
from perfgate.measure.runner import measured_round
from perfgate.measure.sides import GAP_TIMES, Switch, burst
from perfgate.model import AS_USUAL, COMPILING, DECIDES_PACED, Deciding, Round, Scenario
from perfgate.model.compared import OUTLASTED, WAITED
from perfgate.model.errors import BrokersFailedError, TargetError, of_side
from perfgate.model.measured import Arm, Form, Series
from perfgate.model.target import Cluster

REPEATS = 6
SOUND_PER_REPEAT = 3
"""Bursts, or whole rounds, of a scenario that may be measured again because the generator itself was the limit or turns
ran into one another, and one more for every three that were sound: a broker of a busy machine stands still for half a
second, most often while it is new (2 slow cores, 6 comparisons of 5 min: up to 3 of the first 5 bursts, 1 of 20 later);
of whole rounds of a paced load with consumers 8 of 32 were sent late there."""
WARMING_PARTS = 6
"""Parts of a scenario that may be dropped because a broker was still compiling, on each cluster or pair of them."""
LATE_REPEATS = 1
"""Parts of a scenario that may be measured again because brokers were late: once may be a busy machine, and there is no
canary between turns."""
GAP_GROWS = 1.5
"""Factor by which the gap grows where turns ran into one another: brokers drain a buffer in 0.4 s on
a quiet machine, and six of them on two cores stand still for as long now and then."""
QUADS = ("ABBA", "BAAB")
PAIRS = ("AB", "BA")
"""Orders of a burst, or of a block on a pair of clusters, and of two whole rounds on the same brokers. There each two
are a unit, as twice as many units tell far more of their scatter: of end-to-end-1k's p99 22 of two rounds scattered by
0.142, neighbours correlated by -0.19, and 11 of four by 0.108 (benchmarks/results/compare_quality.jsonl)."""
MIRRORED = str.maketrans("AB", "BA")
COMPILE_SHARE = "broker_compile_share.max"
OVERRUN = 0.25
"""The pair of clusters that makes a decision possible is begun also where this share of it lies beyond the budget:
those before decide nothing without it, and a pair takes 2.8 to 3.6 min (a link of 2 ms, two cores)."""
GROWS_BY = 0.25
"""A plan grows by at least this share of it: a few more units show no more than the planned look that they delay."""


@dataclass
class Compared:
    """The two arms of a scenario that are compared, with the series of each. `per_part`: rounds of each side in a burst
    or a block; `parts`: how many of these make a unit of the statistics."""

    sides: Mapping[str, Scenario]
    method: str
    per_part: int
    parts: int = 1
    orders: list[str] = field(default_factory=list)
    may_warm: int = WARMING_PARTS
    repeated: int = 0
    decided: bool = False
    """Nothing more is measured of it: the end of the others does not concern it."""
    late: int = 0
    """Parts that were measured again because records or brokers were late."""
    gap_times: float = 1.0
    """The gap between turns is this many times its computed length."""
    planned: int = 0
    former: list[int] = field(default_factory=list)
    """Earlier plans that grew to this one."""
    seconds: float = 0.0
    seconds_lost: float = 0.0
    """Those of them that were spent before the windows were lengthened."""
    part_s: float = 0.0
    """Duration of the newest burst or block, without the rounds that were measured again."""
    again_s: float = 0.0
    """Duration of its rounds that were measured again."""
    log_tail: str = ""
    window_s: float = 0.0
    """The least length of a turn or a round."""
    decides: Deciding = AS_USUAL
    series: dict[str, Series] = field(init=False)

    def __post_init__(self) -> None:
        forms: dict[str, Form] = {"A": "as declared", "B": "candidate"}
        self.series = {
            side: Series(Arm(scenario=comparison, form=forms[side])) for side, comparison in self.sides.items()
        }

    @property
    def rounds(self) -> dict[str, list[Round]]:
        return {side: series.rounds for side, series in self.series.items()}

    @property
    def discarded(self) -> dict[str, list[Round]]:
        return {side: series.discarded for side, series in self.series.items()}

    @property
    def name(self) -> str:
        return self.sides["A"].name

    @property
    def units(self) -> int:
        return len(self.orders)

    @property
    def unit_s(self) -> float:
        """Average duration of the units that count, in s; 0 without any."""
        return (self.seconds - self.seconds_lost) / self.units if self.units else 0.0

    @property
    def whole(self) -> bool:
        """Whether a part is a block of whole rounds, and no burst of turns."""
        return self.method == "rounds" or self.per_part > 1

    @property
    def orders_of_a_part(self) -> tuple[str, str]:
        return PAIRS if self.method == "rounds" else QUADS

    @property
    def parts_done(self) -> int:
        return len(self.rounds["A"]) // self.per_part

    def spend_repeat(self) -> bool:
        """Use up a repeat of a part that the generator made flawed; return False where none is left."""
        sound = sum(map(len, self.rounds.values())) if self.whole else self.parts_done
        if self.repeated >= REPEATS + sound // SOUND_PER_REPEAT:
            return False
        self.repeated += 1
        return True

    @property
    def unsound(self) -> bool:
        """Whether the scenario can no longer be decided; a paced load is decided by its latency, unless asked."""
        metrics = self.decides.metrics or ((DECIDES_PACED,) if self.sides["A"].load.fixed_rate else ())
        return any(r.invalid or any(map(r.spoilt, metrics)) for rounds in self.rounds.values() for r in rounds)

    def grow(self, freed: int) -> None:
        """Plan this many more units, which others left time for, if they are many and the plan is carried out: that
        others left says nothing of this scenario, so the chance of an error stays."""
        if self.units >= self.planned and freed >= GROWS_BY * self.planned:
            self.former.append(self.planned)
            self.planned += freed

    @property
    def failed(self) -> bool:
        """Whether brokers failed, or did not take what was sent: a result, not a flawed part."""
        return any(r.broken or r.accounting.failed_total for rounds in self.rounds.values() for r in rounds)

    def done(self, fewest: int) -> bool:
        """Whether its plan is carried out, or can decide nothing more: flawed, `fewest` other units show no loss."""
        return self.units >= self.planned or self.failed or (self.unsound and self.units > fewest)

    def lengthen(self, window_s: float, most_parts: int) -> None:
        """Measure rounds for at least `window_s`, and at most `most_parts` a unit, and begin to count anew."""
        self.window_s, self.parts = window_s, min(self.parts, most_parts)
        for series in self.series.values():
            series.discarded += series.rounds
            series.rounds.clear()
        self.orders.clear()
        self.former.clear()
        self.planned, self.seconds_lost = 0, self.seconds

    def undecided(self, sides: Iterable[str]) -> list[Series]:
        """The series of these sides that a failure ends; a decided scenario had its answer from sound brokers."""
        return [] if self.decided else [self.series[side] for side in sides]


def next_order(orders: Sequence[str], chance: random.Random, among: tuple[str, str] = QUADS) -> str:
    """A random order, then its mirror image, and so on: an order's advantage evens out within two parts."""
    return orders[-1].translate(MIRRORED) if len(orders) % 2 else chance.choice(among)


def measure_part(comparison: Compared, benches: Mapping[str, Bench], switch: Switch, left: float, order: str) -> str:
    """Add a burst or a block of rounds to the scenario; return the order of its sides.

    A burst that the generator made flawed (of a block the flawed rounds) is measured again, and so are a part in which
    brokers were still warming up, and the first in which they were late. Empty when time was over before one counted.
    """
    measure = _block if comparison.whole else _burst
    ends = time.monotonic() + left
    while True:
        began, comparison.again_s = time.monotonic(), 0.0
        try:
            measured = measure(comparison, benches, switch, ends - time.monotonic(), order)
        except BrokersFailedError as error:
            if not error.perhaps_late or comparison.late >= LATE_REPEATS:
                raise
            comparison.late += 1
            for side in error.side or switch.turn:
                late = unmeasured(comparison.parts_done + 1, str(error), broken=True, perhaps_late=True)
                comparison.discarded[side].append(late)
            if time.monotonic() >= ends and comparison.method != "pairs":
                return ""
            continue
        over = time.monotonic() >= ends and comparison.method != "pairs"  # a pair's parts are all measured
        if over and not comparison.parts_done and any(finished.repeatable for _, finished in measured):
            break  # without another part a flawed part still shows the least slowness
        by_generator = any(finished.repeatable for _, finished in measured) and all(
            finished.repeatable or not finished.round.invalid for _, finished in measured
        )
        if by_generator and comparison.spend_repeat():
            if any(flaw.kind in (OUTLASTED, WAITED) for _, finished in measured for flaw in finished.round.flaws):
                comparison.gap_times *= GAP_GROWS
        elif comparison.late < LATE_REPEATS and _only_late([finished for _, finished in measured]):
            comparison.late += 1
        elif comparison.may_warm and time.monotonic() < ends and _warming([finished.round for _, finished in measured]):
            comparison.may_warm -= 1
        else:
            break
        for side, finished in measured:
            comparison.discarded[side].append(finished.round)
        if over:
            return ""
    comparison.part_s = time.monotonic() - began - comparison.again_s
    for side, finished in measured:
        comparison.rounds[side].append(finished.round)
    return order


def _only_late(measured: Sequence[Finished]) -> bool:
    """Whether rounds have no other flaw than lateness of the brokers or of the generator."""
    late = all(finished.round.only_late for finished in measured if not finished.repeatable)
    return late and any(flaw.late for finished in measured for flaw in finished.round.flaws)


def _warming(rounds: Sequence[Round]) -> bool:
    """Whether a broker was still compiling its code in valid rounds."""
    shares = [r.metrics.get(COMPILE_SHARE, 0.0) for r in rounds]
    return max(shares) > COMPILING and not any(r.invalid for r in rounds)


def _burst(
    comparison: Compared, benches: Mapping[str, Bench], switch: Switch, left: float, order: str
) -> list[tuple[str, Finished]]:
    switch.rest()  # the topics of both sides are made before the first turn
    # Brokers may still get faster after their warm-up, and the buffers have to keep up with them.
    last = [rounds[-1].metrics.get("records_per_s", 0.0) for rounds in comparison.rounds.values() if rounds]
    slowest = min(last) if last else min(benches[side].rate_of(form) for side, form in comparison.sides.items())
    batches = [benches[side].engine.batching(form) for side, form in comparison.sides.items()]
    at = pace(list(comparison.sides.values()), batches, slowest)
    gap_s = max(at.gap_s, min(at.gap_s * comparison.gap_times, LARGEST_GAP_S), GAP_TIMES * switch.slowest_s)
    at = replace(at, gap_s=gap_s, window_s=max(at.window_s, comparison.window_s))
    along = partial(switch.along, order, turn_s=at.gap_s + at.window_s)
    done = burst(benches, comparison.sides, order, at, comparison.parts_done + 1, left, along)
    return [(side, switch.in_time(finished, at.gap_s)) for side, finished in done.items()]


def _block(
    comparison: Compared, benches: Mapping[str, Bench], switch: Switch, left: float, order: str
) -> list[tuple[str, Finished]]:
    """Measure a block of whole rounds: one that the generator made flawed is measured again before the next begins,
    since on some machines one in four is sent late."""
    number, ends = comparison.parts_done + 1, time.monotonic() + left

    def again(side: str, finished: Finished, seconds: float) -> bool:
        in_time = time.monotonic() < ends or comparison.method == "pairs"
        if not (in_time and comparison.spend_repeat()):
            return False
        comparison.discarded[side].append(finished.round)
        comparison.again_s += seconds
        return True

    seen = dict.fromkeys(SIDES, comparison.per_part * (number - 1))
    measured = []
    for side in order:
        seen[side] += 1
        switch.to(side)
        arm, doing, least_s = comparison.series[side].arm, f"block {number}, side {side},", comparison.window_s
        with of_side(side if benches["A"] is not benches["B"] else ""):
            finished = measured_round(
                benches[side], arm, seen[side], lambda: ends - time.monotonic(), doing, partial(again, side), least_s
            )
        measured.append((side, finished))
    return measured


def too_short(budget_s: float, pair_s: float, needed: int) -> str:
    """Message, after the first pair of clusters, about a budget that affords too few, and one that would do; or ""."""
    affords = budget_s / pair_s
    if affords + OVERRUN >= needed:
        return ""
    return (
        f"a pair of clusters takes {pair_s / 60:.1f} min, so {budget_s / 60:.0f} min afford {int(affords)} of the "
        f"{needed} that a decision needs: --budget {math.ceil((needed + 1) * pair_s / 60)}m tells something"
    )


@contextmanager
def unhealthy_ends(comparisons: Sequence[Compared], blamed: Callable[[], str], *, dedicated: bool) -> Iterator[None]:
    """Let a target that is no longer healthy end the scenarios' measurement, and be the reason why. Of `dedicated`
    brokers it is a result of the one side to blame (the error's, or that of `blamed`)."""
    try:
        yield
    except TargetError as error:
        sides = error.side or blamed()
        break_off_by(
            error, [comparison.undecided(sides) for comparison in comparisons], dedicated=dedicated and len(sides) == 1
        )


def failing(clusters: Mapping[str, Cluster], order: str) -> str:
    """The sides whose brokers have failed; of clusters that start in this order, the side that did not."""
    if len(clusters) < len(order):
        return order[len(clusters)]
    failed_sides = ""
    for side, cluster in clusters.items():
        try:
            cluster.check()
        except TargetError:
            failed_sides += side
    return failed_sides or order
