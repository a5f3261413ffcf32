"""Sides of a comparison in turns of a second, and the settings that are changed between them."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from perfgate.load.schedule import SIDES
from perfgate.measure.assembly import Finished, sends_failed, unmeasured
from perfgate.measure.bench import Bench
from perfgate.measure.validity import LATE_TURNS, late_turns
from perfgate.model import Change, Scenario, Settings
from perfgate.model.errors import TargetError, TopicRefusedError, of_side
from perfgate.model.flaw import Flaw
from perfgate.model.load import LoadError, Observer, Pace, Progress, SendsFailedError
from perfgate.model.target import Cluster, LiveSettings

Answer = TypeVar("Answer")


def burst(
    benches: Mapping[str, Bench],
    sides: Mapping[str, Scenario],
    order: str,
    at: Pace,
    index: int,
    left: float | None,
    along: Callable[[Observer], Observer],
) -> dict[str, Finished]:
    """One burst in which two forms of a scenario, "A" and "B", take turns: each side's turns as a round. `along` adds
    what else happens at a turn's edges. Raises TargetError."""
    bench, turns = benches["A"], order.replace(" ", "")
    progress = bench.watch.progress(f"burst {index} {sides['A'].name}", left)
    progress("creating its topics", None)
    loads = {loaded: {side: sides[side] for side in sides if benches[side] is loaded} for loaded in benches.values()}
    samplers = {loaded: loaded.new_sampler() for loaded in loads}
    observers = {
        loaded: loaded.watch.observer(next(iter(own.values())), samplers[loaded], progress, measured=True, sides=own)
        for loaded, own in loads.items()
    }
    observer = in_turn({side: observers[loaded] for side, loaded in benches.items()}, turns)

    def on_each(ask: Callable[[str], Answer]) -> dict[str, Answer]:
        answers = {}
        for side in sides:
            with of_side(side if len(loads) > 1 else ""):
                answers[side] = ask(side)
        return answers

    try:
        with bench.ledger.during("topics"), ExitStack() as topics:
            names = on_each(lambda side: topics.enter_context(benches[side].topic(sides[side], observer)))
            specs = {side: benches[side].load_spec(scenario, names[side]) for side, scenario in sides.items()}
            before = on_each(lambda side: benches[side].topics.ends(names[side], sides[side]))
            with bench.ledger.during("load start"):
                results, late = bench.engine.take_turns(specs, order, at, along(observer))
            for loaded, own in loads.items():
                loaded.watch.hold_turns(own, results)
            after = on_each(
                lambda side: benches[side].topics.ends_after(names[side], sides[side], before[side], results[side])
            )
    except (LoadError, TopicRefusedError) as error:
        rounds = {side: unmeasured(index, str(error)) for side in sides}
        if isinstance(error, SendsFailedError):
            for loaded, own in loads.items():  # it does not say whose sends they were
                loaded.watch.hold_outcome(next(iter(own.values())), error)
            if len(loads) > 1 and (side := error.process.partition("-")[0]) in sides:
                rounds[side] = sends_failed(index, error, own_brokers=benches[side].dedicated)
        return {side: Finished(round=round_, repeatable=False) for side, round_ in rounds.items()}
    outlasted = {side: share for side, share in late.items() if share.turns > LATE_TURNS * share.of}
    turn_s = at.gap_s + at.window_s
    return {
        side: benches[side].finished(
            scenario,
            index,
            results[side],
            before[side],
            after[side],
            [n for n, letter in enumerate(x for x in turns if benches[x] is benches[side]) if letter == side],
            samplers[benches[side]],
            [late_turns(share.turns, share.of, own=whose == side, turn_s=turn_s) for whose, share in outlasted.items()],
        )
        for side, scenario in sides.items()
    }


def in_turn(observers: Mapping[str, Observer], turns: str) -> Observer:
    """The observer of all turns, each seen by that of its own side alone: to read a cluster's counters takes 45 ms
    (median; at most 320; 2 busy cores), by which the second side's would be some 3 % too low (acks-all)."""
    each, edges = list(dict.fromkeys(observers.values())), itertools.count()

    def edge(at: float) -> None:
        observers[turns[next(edges) // 2]].edge(at)

    def check() -> None:
        for side, observer in observers.items():
            with of_side(side if len(each) > 1 else ""):
                observer.check()

    def sends(last: Progress) -> None:
        for observer in each:
            observer.sends(last)

    def settled() -> bool:
        return all(observer.settled() for observer in each)

    return replace(each[0], edge=edge, check=check, sends=sends, settled=settled)


REHEARSALS = 2
GAP_TIMES = 2.0
"""The least gap between two turns, in times of the slowest change so far: under load it takes longer."""
OF_CONNECTIONS = ("num.network.threads", "connection", "max.connection", "listener.", "ssl.", "sasl.")
"""Beginnings of settings that a connection keeps from when it was made: after the change each side needs new ones."""
OF_SEGMENTS = ("log.index.", "log.preallocate", "log.roll.jitter.")
"""Beginnings of settings that a segment keeps from when it was made (Kafka's LogSegment.open): each side needs topics
made after the change, and a burst makes both sides' before its first turn."""


OF_A_RATE = re.compile("throttl|quota|rate([^a-z]|$)|Rate|per.second")
"""Of names of settings that bound a rate: it is kept on average, so that a side that rests half of the time gets twice
as much in its turns (a quota of 0.73 of a rate was not seen at all in 14 bursts on Pulsar)."""


def bounds_a_rate(scenario: Scenario) -> bool:
    """Whether brokers hold a declared load to a rate of so much a second."""
    cluster = scenario.cluster
    named = (*scenario.topic.config, *cluster.config, *cluster.bookie_config)
    return any(OF_A_RATE.search(name) for name, _ in named)


TOPICS_OWN = {
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.retention.hours": "retention.ms",
    "log.retention.minutes": "retention.ms",
    "log.roll.hours": "segment.ms",
    "log.roll.jitter.hours": "segment.jitter.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
}
"""Kafka's settings of brokers that a topic has under another name (ServerTopicConfigSynonyms); of others the name is
the same, or follows log. or log.cleaner."""


def topics_own(scenario: Scenario) -> dict[str, str]:
    """The settings of brokers that its topics state themselves, so that the brokers' values are not in force for it."""
    if scenario.cluster.system != "kafka":
        return {}
    # Topics of groups and transactions are the brokers' own, and flushed as these are set.
    flushes = bool(scenario.consumers or scenario.transaction_ms)
    stated = {}
    for name, _ in scenario.cluster.config:
        own = TOPICS_OWN.get(name, name.removeprefix("log.").removeprefix("cleaner."))
        every = all(own in dict(load.topic.config) for load in (scenario, *scenario.parts))
        if every and not (flushes and own.startswith("flush.")):
            stated[name] = own
    return stated


def in_force(scenario: Scenario) -> Scenario:
    """The scenario without those settings of brokers."""
    own = topics_own(scenario)
    config = tuple(pair for pair in scenario.cluster.config if pair[0] not in own)
    return replace(scenario, cluster=replace(scenario.cluster, config=config))


OF_LEDGERS = ("ensemble",)
"""Policies of Pulsar that a topic keeps, as long as its ledger is open, from when it was made."""


def differ_in_policies(form_a: Scenario, form_b: Scenario) -> bool:
    """Whether two forms of a scenario state other policies of Pulsar that take effect on open topics: a namespace has
    one set, and a burst makes both sides' topics in it before its first turn."""
    a, b = ({pair for pair in form.topic.config if pair[0] not in OF_LEDGERS} for form in (form_a, form_b))
    return form_a.cluster.system == "pulsar" and a != b


def live_values(change: Change, cluster: Cluster) -> Settings | None:
    """The broker settings of the change, if all of them change while brokers run; else None. One that the cluster was
    started with does not: restoring it would not bring the brokers' own value back."""
    values = change.settings("broker")
    names = [name for name, _ in values]
    if not values or change.restarts_brokers or set(names) & set(dict(cluster.spec.config)):
        return None
    return None if cluster.live_settings().fixed(names) else values


class Switch:
    """Brings the brokers to side A (as they were) or B (with the change), once it is rehearsed. `sides`: those that
    they serve now, as they are set; `turn`: the side that is loaded, or both."""

    def __init__(self, sides: str = SIDES) -> None:
        self.sides = self.turn = sides
        self._settings: LiveSettings | None = None
        self._values: Settings = ()
        self._applied = False
        self._last_s = self._late_s = 0.0
        self.slowest_s = 0.0
        """Most seconds until the last broker said that the change takes effect."""

    def rehearse(self, settings: LiveSettings, values: Settings, times: int = REHEARSALS) -> None:
        """Apply and revert the settings, to time it. Raises ConfigurationError for a value that brokers refuse."""
        self._settings, self._values = settings, values
        if not times:
            self.sides = self.turn = "A"  # as they were
        for _ in range(times):
            self.slowest_s = 0.0  # the first also makes the connections
            self.to("B")
            self.to("A")

    def to(self, side: str) -> None:
        """Bring the brokers to this side, unless they are there. Raises TargetError when a broker does not take it."""
        self.turn = side
        if self._settings is None or side == self.sides:
            return
        before, self.sides, self._applied = self.sides, side, True  # it may be, whatever fails
        try:
            took_s = self._settings.still(self._values) if before == "B" else 0.0
            took_s += self._settings.change(self._values) if side == "B" else self._settings.restore()
        except TargetError:
            self.sides = ""  # unknown: they are set again
            raise
        self._applied = side == "B"
        self._last_s = max(self._last_s, took_s)
        self.slowest_s = max(self.slowest_s, took_s)

    def rest(self) -> None:
        """Note that no side is loaded: a failure is of both, or of the side that the brokers serve."""
        self.turn = self.sides or SIDES

    def back(self) -> str:
        """Revert the change where it may be applied; return why that failed, empty where it did not."""
        try:
            if self._settings is not None and self._applied:
                self._settings.restore()
        except TargetError as error:
            return f"the change before could not be taken back: {error}"
        self._applied = False
        return ""

    def along(self, order: str, observer: Observer, turn_s: float = math.inf) -> Observer:
        """Bring the brokers to the first turn's side; return the observer, which also changes the settings after each
        turn that another side's follows. `turn_s`: from a window's opening to the next window's, in s.
        """
        self.to(order[0])
        self._last_s, self._late_s, edges, opened_at = 0.0, 0.0, itertools.count(1), math.inf

        def edge(at: float) -> None:
            nonlocal opened_at
            observer.edge(at)
            turns, opened = divmod(next(edges), 2)
            if opened:
                opened_at = at
            elif turns < len(order) and self._settings is not None and self.sides != order[turns]:
                self.to(order[turns])
                self._late_s = max(self._late_s, time.monotonic() - opened_at - turn_s)
            elif turns < len(order):
                self.turn = order[turns]

        return replace(observer, edge=edge)

    def in_time(self, finished: Finished, gap_s: float) -> Finished:
        """A burst's round, to be repeated where a change was not done when the next window opened; it may have begun
        late, as this run's thread had to get a processor."""
        if self._last_s > gap_s:
            took = f"the brokers took {self._last_s:.2f} s to take the change"
            reason = f"{took}, more than the {gap_s:.2f} s between turns"
        elif self._late_s > 0:
            reason = f"a change was made {self._late_s:.2f} s after the window of the turn that it is for had opened"
        else:
            return finished
        flaw = Flaw(reason, kind="switch", whose="load", again=True)
        flawed = replace(finished.round, flaws=(*finished.round.flaws, flaw))
        return Finished(round=flawed, repeatable=finished.repeatable or not finished.round.invalid)
