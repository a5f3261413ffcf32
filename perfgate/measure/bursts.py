"""Bursts: two forms of a scenario take turns of a second, on the same brokers or on two clusters side by side."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from perfgate.measure.assembly import Finished, sends_failed, unmeasured
from perfgate.measure.bench import Bench
from perfgate.measure.validity import LATE_TURNS, late_turns
from perfgate.model import Scenario, with_settings
from perfgate.model.errors import TopicRefusedError, of_side
from perfgate.model.load import LoadError, Observer, Pace, Progress, SendsFailedError


def burst(
    benches: Mapping[str, Bench],
    sides: Mapping[str, Scenario],
    order: str,
    at: Pace,
    index: int,
    left: float | None,
    along: Callable[[Observer], Observer],
) -> dict[str, Finished]:
    """Return one burst in which two forms of a scenario, "A" and "B", take turns: each side's turns as a round.

    `benches`: where each side is loaded; `along` adds what else happens at a turn's edges. Raises TargetError when a
    target is unhealthy.
    """
    bench, turns = benches["A"], order.replace(" ", "")
    progress = bench.watch.progress(f"burst {index} {sides['A'].name}", left)
    progress("creating its topics", None)
    buffer = {"queue.buffering.max.kbytes": at.buffer_kib}
    rows = {side: replace(row, producer=with_settings(row.producer, buffer)) for side, row in sides.items()}
    loads = {one: {side: row for side, row in sides.items() if benches[side] is one} for one in benches.values()}
    samplers = {one: one.new_sampler() for one in loads}
    observers = dict[Bench, Observer]()
    for one, own in loads.items():
        first = next(iter(own.values()))
        observers[one] = one.watch.observer(first, samplers[one], progress, measured=True, sides=own)
    observer = in_turn({side: observers[one] for side, one in benches.items()}, turns)
    try:
        with bench.ledger.during("topics"), ExitStack() as topics:
            names = {}
            for side, row in rows.items():
                with of_side(side if len(loads) > 1 else ""):
                    names[side] = topics.enter_context(benches[side].topic(row, observer))
            specs = {side: benches[side].load_spec(row, names[side]) for side, row in rows.items()}
            before = {}
            for side, row in rows.items():
                with of_side(side if len(loads) > 1 else ""):
                    before[side] = benches[side].topics.ends(names[side], row)
            with bench.ledger.during("load start"):
                results, late = bench.engine.take_turns(specs, order, at, along(observer))
            for one, own in loads.items():
                one.watch.hold_turns(own, results)
            after = {}
            for side, row in rows.items():
                with of_side(side if len(loads) > 1 else ""):
                    after[side] = benches[side].topics.ends_after(names[side], row, before[side], results[side])
    except (LoadError, TopicRefusedError) as error:
        found = {side: unmeasured(index, str(error)) for side in rows}
        if isinstance(error, SendsFailedError):
            for one, own in loads.items():  # whose sends they were it does not tell
                one.watch.hold_outcome(next(iter(own.values())), error)
            if len(loads) > 1 and (side := error.process.partition("-")[0]) in rows:
                found[side] = sends_failed(index, error, own_brokers=benches[side].dedicated)
        return {side: Finished(round=one, repeatable=False) for side, one in found.items()}
    outlasted = {side: one for side, one in late.items() if one.turns > LATE_TURNS * one.of}
    turn_s = at.gap_s + at.window_s
    return {
        side: benches[side].finished(
            row,
            index,
            results[side],
            before[side],
            after[side],
            [n for n, letter in enumerate(x for x in turns if benches[x] is benches[side]) if letter == side],
            samplers[benches[side]],
            [late_turns(one.turns, one.of, own=whose == side, turn_s=turn_s) for whose, one in outlasted.items()],
        )
        for side, row in rows.items()
    }


def in_turn(observers: Mapping[str, Observer], turns: str) -> Observer:
    """Return the observer of all turns, of each side's own: the edges of a turn are seen by that of its side alone.

    To read a cluster's counters takes 45 ms (median; at most 320; 2 cores that brokers use up), and read 105 ms late
    they were 6 % too low (acks-all): were both read at each edge, the second one's would be too low by some 3 %.
    """
    each, edges = list(dict.fromkeys(observers.values())), itertools.count()

    def edge(at: float) -> None:
        observers[turns[next(edges) // 2]].edge(at)

    def check() -> None:
        for side, one in observers.items():
            with of_side(side if len(each) > 1 else ""):
                one.check()

    def sends(last: Progress) -> None:
        for one in each:
            one.sends(last)

    return replace(each[0], edge=edge, check=check, sends=sends, settled=lambda: all(one.settled() for one in each))
