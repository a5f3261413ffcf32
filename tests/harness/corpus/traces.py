"""python -m tests.harness.corpus.traces: what measurements on fake clusters would do otherwise; --write freezes anew.

A trace is what is done to fake clusters under a fake clock, line by line with its moment (a cluster started, a topic
made, a warm-up, a load, a change of settings), what a person is told meanwhile, and the rounds that come of it.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfgate.judge.claims.same import SequentialStopRule
from perfgate.judge.gate_stop import GateStopRule
from perfgate.measure.campaign import Campaign
from perfgate.measure.comparing import Comparing
from perfgate.measure.plan import one_host_fewer
from perfgate.measure.setup import Setup
from perfgate.model import (
    CROSS_ZONE,
    Change,
    ClusterSpec,
    Comparison,
    Consumers,
    Deciding,
    Load,
    Measurement,
    RecordedPairs,
    Round,
    Scenario,
    TopicSpec,
)
from perfgate.model.compared import declared_digest
from perfgate.model.errors import ConfigurationError
from tests.harness.build import scenario
from tests.harness.corpus.fake_run import LATE_DEATH, TIER, Driver, Live, Target, World, fake_setup

TRACES = Path(__file__).parent / "traces"
SMALL, IN_SYNC = ClusterSpec(brokers=1), ClusterSpec(config=(("min.insync.replicas", "2"),))
REPLICATED = TopicSpec(partitions=3, replication_factor=3)
IO_THREADS = Change(name="io threads", changes=(("broker.num.io.threads", "2"),))
LINGER = Change(name="linger", changes=(("producer.linger.ms", "10"),))
VERSION = Change(name="version", changes=(("cluster.version", "3.9.1"),))
CPU = "broker_cpu_us_per_record"


def row(name: str, *families: str, kind: str = "capped", rate: float = 1e6, **changes: Any) -> Scenario:
    """Return a scenario of these families."""
    if kind == "backlog":
        load = Load(kind="backlog", records=5000)
        changes.setdefault("consumers", Consumers(membership="assigned"))
    else:
        load = Load(kind=kind, rate=rate)
    return replace(scenario(name, families or ("f",)), load=load, **changes)


class GivesUp(GateStopRule):
    """Gives a scenario that is called wild up after two rounds."""

    def hopeless(self, scenario: Scenario, rounds: Sequence[Round]) -> bool:
        return scenario.name == "wild" and len(rounds) > 1


def gate(world: World, rows: Sequence[Scenario], *, again: Sequence[str] = (), **settings: Any) -> Campaign:
    """Measure each scenario as the gate asks for it, then those to be confirmed."""
    setup = fake_setup(world, rows, **settings.pop("setup", {}))
    stop = GivesUp(profile=None, rounds=setup.tier.rounds)
    campaign = Campaign(setup=setup, stop=stop, keep=lambda: world.write("kept"), **settings)
    for one in rows:
        world.write(f"asked for {one.name}")
        try:
            _measured(world, campaign.measure(one))
        except RuntimeError as error:
            world.write(f"error: {error}")
    for name in again:
        world.write(f"asked again for {name}")
        chosen = [one for one in rows if one.name == name]
        for found in (campaign.again(chosen, set(again)) or {}).values():
            _measured(world, found)
    _facts(world, setup)
    return campaign


def compare(world: World, change: Change, rows: Sequence[Scenario], budget_s: float, **settings: Any) -> None:
    """Compare the scenarios, in the order in which a run asks for them."""
    setup = fake_setup(world, rows, **settings.pop("setup", {}))
    comparing = Comparing(change=change, budget_s=budget_s, setup=setup, stop=SequentialStopRule(), **settings)
    for one in rows:
        if reason := comparing.cannot(one):
            world.write(f"cannot compare {one.name}: {reason}")
            continue
        world.write(f"asked for {one.name}")
        try:
            _compared(world, comparing.compare(one))
        except (RuntimeError, KeyboardInterrupt, ConfigurationError) as error:
            world.write(f"{type(error).__name__}: {error}")
            if (so_far := comparing.so_far(one)) is not None:
                _compared(world, so_far)
    _facts(world, setup)


def _facts(world: World, setup: Setup) -> None:
    for facts in setup.clusters:
        known = {key: value for key, value in facts.items() if key != "warm_up"}
        warm_up: Any = facts.get("warm_up", {})
        world.write(f"cluster {known}, slices { ({name: len(found) for name, found in warm_up.items()}) }")
    world.write(f"target { ({key: value for key, value in setup.target_facts.items() if key != 'clusters'}) }")
    spent = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in setup.ledger.seconds().items() if seconds > 0.05)
    world.write(f"seconds {spent}")


def _measured(world: World, found: Measurement) -> None:
    world.write(f"measured {found.scenario.name}: {_figures(found)}, {len(found.canary)} canary readings")
    parts = {"": found.rounds, "discarded ": found.discarded, "warm-up ": found.warm_up}
    for what, rounds in {**parts, "one host fewer ": found.one_host_fewer}.items():
        world.lines += [f"    {what}{_round(one)}" for one in rounds]
    if found.warming:
        world.lines.append(f"    warming: {found.warming}")


def _compared(world: World, found: Comparison) -> None:
    told = f"{found.method}, {found.rounds_per_unit} rounds a unit, {found.planned_units} units planned"
    former = f" (before: {found.former_plans})" if found.former_plans else ""
    world.write(
        f"compared {found.scenario.name} by {told}{former}, {found.minutes:.2f} min, recorded: {found.recorded}"
    )
    world.lines.append(f"    orders {' | '.join(found.orders)}")
    for side, one in (("A", found.baseline), ("B", found.candidate)):
        world.lines.append(f"    {side}: {_figures(one)}")
        world.lines += [f"    {side} {_round(each)}" for each in one.rounds]
        world.lines += [f"    {side} discarded {_round(each)}" for each in one.discarded]


def _figures(found: Measurement) -> str:
    return f"round trips {dict(found.rtt_ms)}, {found.latency_basis}, {found.by_hand}, log {found.broker_log_tail!r}"


def _round(one: Round) -> str:
    rate = one.metrics.get("records_per_s")
    measured = "nothing" if rate is None else f"{rate:,.1f}/s in {one.window_s:g} s"
    marks = [("unhealthy", one.target_unhealthy), ("broken", bool(one.broken)), ("late", one.only_late and one.flaws)]
    flaws = "".join(f"; {flaw.text}" for flaw in one.flaws)
    return f"round {one.index}: {measured}{''.join(f', {mark}' for mark, is_so in marks if is_so)}{flaws}"


def _block() -> list[Scenario]:
    return [
        row("base", "a", "b"),
        row("paced", "a", kind="paced", rate=500.0),
        row("read", "b", kind="backlog"),
        row("small", "c", cluster=SMALL),
    ]


def gate_block() -> Iterator[str]:
    """Rounds of a block and of another cluster, with rounds measured again, and two of them a second time."""
    world = World(
        script={
            "load base": {2: "saturated", 3: "saturated", 4: "saturated"},
            "load paced": {1: "late", 5: "late", 8: "no load"},
            "load small": {2: "failing"},
        }
    )
    with world.running():
        gate(world, _block(), again=("base", "small"))
    yield from world.lines


def gate_warming() -> Iterator[str]:
    """Brokers that still compile after the tier's rounds; the family beside it gets no more rounds."""
    rows = [row("slow", "a", topic=REPLICATED), row("partner", "a"), row("far", "z")]
    world = World(compiles={1, 2, 5, 6, *range(15, 22)})
    with world.running():
        gate(world, rows)
    yield from world.lines


def gate_stops_early() -> Iterator[str]:
    """What scatters too much, what brokers broke and what never came about is not measured to the end."""
    rows = [row("wild"), row("lost", topic=TopicSpec(partitions=1, replication_factor=1)), row("unmade"), row("none")]
    script = {
        "load lost": {2: "lost"},
        "load unmade": {1: "unmade"},
        "load none": {1: "no load", 2: "no load"},
    }
    refused = replace(row("refused"), refusal="INVALID_REPLICATION_FACTOR")
    world = World(script={**script, "topic refused": dict.fromkeys(range(1, 9), "INVALID_REPLICATION_FACTOR")})
    with world.running():
        gate(world, [*rows, refused])
    yield from world.lines


def gate_one_host_fewer() -> Iterator[str]:
    """Rounds of two scenarios on three load hosts and on two; one has nothing to leave out."""
    rows = [row("spread", producers=3), row("alone"), row("again", producers=4)]
    script = {"load spread": {2: "saturated", 5: "failing"}, "load again": {3: "saturated", 4: "saturated", 5: "lost"}}
    world = World(script=script)
    with world.running():
        gate(world, rows, again=("spread",), setup={"fewer": lambda one: one_host_fewer(one, 3)})
    yield from world.lines


def gate_resumed() -> Iterator[str]:
    """A run that takes over the block that an interrupted one measured."""
    world = World()
    with world.running():
        first = gate(world, _block()[:3])
        earlier = {(found.scenario.families[0], name): found for name, found in first.measured.items()}
        earlier |= first.baselines
        world.write("=== continued")
        names = {frozenset({"base", "paced", "read"})}
        gate(world, _block(), earlier=earlier, earlier_blocks=names)
    yield from world.lines


def gate_fails() -> Iterator[str]:
    """Brokers that end, a cluster that does not start, a limit that is reached, an error that is met once."""
    rows = [row("first"), row("second"), row("small", "c", cluster=SMALL), row("third", "d", cluster=IN_SYNC)]
    script = {
        "load second": {3: "dies"},
        "start": {2: "dies"},
        "load third": {2: "limit"},
    }
    world = World(script=script)
    with world.running():
        gate(world, rows)
        world.write("=== an error")
        world.script = {"load first": {world.done["load first"] + 2: "crash"}}
        gate(world, rows[:2])
        world.write("=== real brokers")
        world.script = {"load second": {world.done["load second"] + 2: "sick"}}
        gate(world, rows[:2], setup={"target": Target(world, own=False, dedicated=False)})
    yield from world.lines


def gate_ramp() -> Iterator[str]:
    """A search for the knee beside another scenario."""
    rows = [row("ramp", kind="ramp", rate=4000.0), row("beside")]
    world = World(rates={"ramp knee": 1500.0}, script={"load ramp": {9: "late", 12: "late"}})
    with world.running():
        gate(world, rows, setup={"tier": replace(TIER, rounds=2)})
    yield from world.lines


def compared_by_turns() -> Iterator[str]:
    """Two scenarios in turns while the brokers change a setting: one is decided, time goes to the other."""
    rows = [row("clear"), row("close", rate=1e5)]
    script = {"turns close": {2: "A:saturated", 3: "B:outlasted", 5: LATE_DEATH, 9: "B:lost"}}
    world = World(
        rates={"clear": 15e3, "clear-candidate": 8e3, "close": 15e3, "close-candidate": 14.4e3},
        script=script,
        noise=0.05,
    )
    with world.running():
        compare(world, IO_THREADS, rows, 400.0)
        world.write("=== nothing wrong")
        world.script = {}
        compare(world, IO_THREADS, rows, 300.0)
    yield from world.lines


def compared_clients_alone() -> Iterator[str]:
    """A change of clients: nothing is switched; a scenario that only reads is not concerned, an effect is clear."""
    rows = [row("quick"), row("read", kind="backlog"), row("small", "c", cluster=SMALL)]
    world = World(
        rates={"quick-candidate": 500.0}, script={"turns small": {2: "B:lost"}}, compiles={*range(1, 3), *range(6, 15)}
    )
    with world.running():
        compare(world, LINGER, rows, 120.0)
    yield from world.lines


def compared_by_rounds() -> Iterator[str]:
    """Whole rounds in turn: of a load with consumers, of a driver without turns, of settings that segments keep."""
    consumers = Consumers(membership="group")
    rows = [row("paced", kind="paced", rate=500.0), row("read", kind="backlog", consumers=consumers)]
    world = World(script={"load paced": {3: "late", 6: "late"}, "load read-candidate": {2: "no load"}}, noise=0.002)
    change = Change(name="preallocate", changes=(("broker.log.preallocate", "true"),))
    with world.running():
        compare(world, change, rows, 1200.0, setup={"driver": Driver(world, takes_turns=False)})
        world.write("=== no time")
        compare(world, change, rows[:1], 60.0)
    yield from world.lines


def compared_on_pairs() -> Iterator[str]:
    """A pair of clusters for each unit: of bursts, and of blocks of whole rounds."""
    consumers = Consumers(membership="group")
    rows = [row("turned"), row("blocks", kind="backlog", consumers=consumers, link=CROSS_ZONE)]
    world = World(
        script={"turns turned": {3: "A:saturated", 9: LATE_DEATH}, "load blocks": {4: "no load"}},
        noise=0.005,
        compiles={1, 2, *range(14, 24)},
    )
    pairs = RecordedPairs(
        metric="records_per_s",
        rounds_per_unit=6,
        effects=(0.01, -0.01, 0.02) * 2,
        window_s=TIER.window_s,
        declared=declared_digest(rows[0]),
    )
    with world.running():
        compare(world, VERSION, rows, 2400.0, recorded={"turned": [pairs]})
        world.write("=== too short")
        world.script = {}
        compare(world, VERSION, rows[:1], 200.0)
        world.write("=== settings that brokers take at their start only; a changed one does not start")
        world.script = {"start": {world.done["start"] + 5: "dies"}}
        compare(world, Change(name="fixed", changes=(("broker.fixed.one", "1"),)), rows[:1], 600.0)
    yield from world.lines


def compared_on_two_clusters() -> Iterator[str]:
    """Each side on a cluster that exists: in turns; the other one ends in the middle."""
    rows = [row("one"), row("two", kind="paced", rate=300.0)]
    world = World(script={"turns two": {4: "B:failing", 9: LATE_DEATH}}, noise=0.005)
    with world.running():
        target = Target(world, own=False, dedicated=True)
        compare(world, LINGER, rows, 200.0, against=True, setup={"target": target})
        world.write("=== one ends")
        world.script = {"turns one": {world.done["turns one"] + 3: "dies"}}
        compare(world, LINGER, rows, 200.0, against=True, setup={"target": Target(world, own=False)})
    yield from world.lines


def compared_by_commands() -> Iterator[str]:
    """A change that something outside makes: rehearsed, then one round after the other."""
    change = Change(name="outside")
    world = World(script={"change": {7: "slow"}})
    with world.running():
        compare(world, change, [row("one"), row("small", cluster=SMALL)], 700.0, outside=Live(world, "outside"))
        world.write("=== the rehearsal fails")
        world.script = {"change": {world.done["change"] + 2: "sick"}}
        compare(world, change, [row("one")], 400.0, outside=Live(world, "outside"))
        world.write("=== brokers end while it is applied")
        world.script = {"load one-candidate": {world.done["load one-candidate"] + 2: "dies"}}
        compare(world, change, [row("one"), row("small", cluster=SMALL)], 400.0, outside=Live(world, "outside"))
        world.write("=== interfered with")
        world.script = {"change": {world.done["change"] + 6: "interfered"}}
        compare(world, change, [row("one")], 400.0, outside=Live(world, "outside"))
    yield from world.lines


def compared_in_longer_windows() -> Iterator[str]:
    """Brokers' CPU decides where both sides come to the cap, and takes windows of 5 s to be known."""
    world = World(usage_window_s=5.0, rates={"capped": 1500.0, "capped-candidate": 1500.0})
    with world.running():
        compare(world, IO_THREADS, [row("capped", rate=1000.0)], 700.0)
        world.write("=== on pairs, asked for")
        compare(world, VERSION, [row("capped", rate=1000.0)], 2000.0, decides=Deciding(metrics=(CPU,)))
    yield from world.lines


def compared_and_broken_off() -> Iterator[str]:
    """Brokers that end, a limit, an interruption, an error that is met once."""
    rows = [row("one"), row("two"), row("small", "c", cluster=SMALL)]
    for name, script in {
        "brokers end": {"turns two": {3: "dies"}},
        "a limit": {"turns one": {4: "limit"}},
        "an interruption": {"turns small": {3: "interrupt"}},
        "an error": {"turns two": {2: "crash"}},
        "no start": {"start": {1: "sick"}},
        "the second does not start": {"start": {2: "dies"}},
        "none taken": {"turns one": {2: "unmade"}},
        "late twice": {"turns two": {2: LATE_DEATH, 4: LATE_DEATH}},
        "settings not taken": {"change": {9: "sick"}},
    }.items():
        world = World(script=script)
        world.write(f"=== {name}")
        with world.running():
            compare(world, IO_THREADS, rows, 150.0)
        yield from world.lines


CASES: Mapping[str, Callable[[], Iterator[str]]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        gate_block,
        gate_warming,
        gate_stops_early,
        gate_one_host_fewer,
        gate_resumed,
        gate_fails,
        gate_ramp,
        compared_by_turns,
        compared_clients_alone,
        compared_by_rounds,
        compared_on_pairs,
        compared_on_two_clusters,
        compared_by_commands,
        compared_in_longer_windows,
        compared_and_broken_off,
    )
}


def trace(name: str) -> str:
    """Return the trace of this case."""
    return "".join(f"{line}\n" for line in CASES[name]())


def difference(name: str, now: str) -> str:
    """Return in which lines the trace is another than the frozen one; empty when it is the same."""
    path = TRACES / f"{name}.txt"
    before = path.read_text().splitlines() if path.exists() else []
    return "\n".join(
        itertools.islice(difflib.unified_diff(before, now.splitlines(), "frozen", "now", lineterm="", n=1), 80)
    )


def main() -> int:
    """Print what differs, or write it down; exit code 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.corpus.traces", description=__doc__)
    parser.add_argument("--write", action="store_true", help="freeze what is done now")
    parser.add_argument("names", nargs="*", choices=[[], *CASES], help="what to look at; all")
    asked = parser.parse_args()
    code = 0
    for name in asked.names or CASES:
        now = trace(name)
        if asked.write:
            TRACES.mkdir(exist_ok=True)
            (TRACES / f"{name}.txt").write_text(now)
        elif found := difference(name, now):
            print(f"{name}\n{found}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
