"""Bursts: two forms of a scenario take turns of a second, on the same brokers or on two clusters side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from perfgate.experiment.assembly import Finished, unmeasured
from perfgate.experiment.bench import Bench
from perfgate.experiment.validity import LATE_TURNS, late_turns
from perfgate.model import Scenario, with_settings
from perfgate.model.errors import TopicRefusedError
from perfgate.model.load import LoadError, Observer, Pace, Progress


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
    bench = benches["A"]
    progress = bench.watch.progress(f"burst {index} {sides['A'].name}", left)
    progress("creating its topics", None)
    buffer = {"queue.buffering.max.kbytes": at.buffer_kib}
    rows = {side: replace(row, producer=with_settings(row.producer, buffer)) for side, row in sides.items()}
    samplers = {one: one.new_sampler() for one in benches.values()}
    loaded = {one: {side: row for side, row in sides.items() if benches[side] is one} for one in samplers}
    observer = bench.watch.observer(sides["A"], samplers[bench], progress, measured=True, sides=loaded[bench])
    for other in samplers.keys() - {bench}:
        observer = beside(observer, other.watch.observer(sides["B"], samplers[other], progress, sides=loaded[other]))
    try:
        with bench.ledger.during("topics"), ExitStack() as topics:
            names = {side: topics.enter_context(benches[side].topic(row, observer)) for side, row in rows.items()}
            specs = {side: benches[side].load_spec(row, names[side]) for side, row in rows.items()}
            before = {side: benches[side].topics.ends(names[side], row) for side, row in rows.items()}
            with bench.ledger.during("load start"):
                results, late = bench.engine.take_turns(specs, order, at, along(observer))
            after = {
                side: benches[side].topics.ends_after(names[side], row, before[side], results[side])
                for side, row in rows.items()
            }
    except (LoadError, TopicRefusedError) as error:
        return {side: Finished(round=unmeasured(index, str(error)), repeatable=False) for side in rows}
    turns = order.replace(" ", "")
    outlasted = {side: one for side, one in late.items() if one.turns > LATE_TURNS * one.of}
    return {
        side: benches[side].finished(
            row,
            index,
            results[side],
            before[side],
            after[side],
            [number for number, letter in enumerate(turns) if letter == side],
            samplers[benches[side]],
            [late_turns(one.turns, one.of, own=whose == side) for whose, one in outlasted.items()],
        )
        for side, row in rows.items()
    }


def beside(observer: Observer, other: Observer) -> Observer:
    """Return the observer, which also watches what the other one does."""

    def edge(at: float) -> None:
        observer.edge(at)
        other.edge(at)

    def check() -> None:
        observer.check()
        other.check()

    def sends(last: Progress) -> None:
        observer.sends(last)
        other.sends(last)

    return replace(
        observer, edge=edge, check=check, sends=sends, settled=lambda: observer.settled() and other.settled()
    )
