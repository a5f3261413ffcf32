"""The campaign: which block a scenario's measurement comes from, and a topic that must be refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.judge.gate_stop import GateStopRule
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.campaign import Campaign
from perfgate.measure.plan import BLOCK_ROUND_S
from perfgate.measure.round_topics import RoundTopics, refusal_round
from perfgate.model import Fault, FaultScenario, Measurement, Scenario, Tier, TopicSpec, Verdict
from perfgate.model.errors import TopicRefusedError
from perfgate.model.load import LoadResult, LoadSpec, Observer
from tests.harness.build import measurement, scenario
from tests.harness.corpus.fake_run import Driver, World, fake_setup

TIER = Tier(name="nightly", rounds=3, window_s=10.0, warmup_max_s=BLOCK_ROUND_S / 4 - 10, broker_warmup_s=1.0)
"""Four rows make a block."""


@dataclass
class Counting(Campaign):
    """Measures a block at once, and counts them."""

    done: list[list[str]] = field(default_factory=list)

    def _measure_block(self, block: Sequence[Scenario], *, again: bool = False) -> dict[str, Measurement]:
        self.done.append([row.name for row in block])
        return {row.name: replace(measurement([1000.0 * len(self.done)] * 3), scenario=row) for row in block}


def campaign(rows: list[Scenario]) -> tuple[Campaign, list[list[str]]]:
    setup: Any = Mock(scenarios=rows, tier=TIER, cannot=lambda row: None)
    setup.ledger.seconds.return_value = {"start": 1.0}
    found = Counting(setup=setup, stop=Mock())
    return found, found.done


def rate(found: Measurement) -> float:
    return found.rounds[0].metrics["records_per_s"]


def test_a_relation_is_judged_on_its_familys_block() -> None:
    base = scenario("base", ("a", "b"))
    rows = [base, *(scenario(f"{family}{n}", (family,)) for family in "ab" for n in range(3))]
    found, done = campaign(rows)
    for row in rows:
        found.measure(row)
    assert done == [["base", "a0", "a1", "a2"], ["base", "b0", "b1", "b2"]]
    assert rate(found.measured["base"]) == 1000, "of its own family's block"
    assert rate(found.measure(base, "a")) == rate(found.measure(rows[1], "a")) == 1000
    assert rate(found.measure(base, "b")) == rate(found.measure(rows[4], "b")) == 2000
    assert list(found.baselines) == [("b", "base")]
    assert len(done) == 2, "nothing is measured for a relation that was measured before"


def test_a_relation_that_is_asked_for_first_measures_its_own_block() -> None:
    base = scenario("base", ("a", "b"))
    rows = [base, *(scenario(f"{family}{n}", (family,)) for family in "ab" for n in range(3))]
    found, done = campaign(rows)
    assert rate(found.measure(base, "b")) == rate(found.measure(rows[4], "b"))
    assert done == [["base", "b0", "b1", "b2"]]
    assert found.measured.keys() == {"b0", "b1", "b2"}, "base is of another family, which is measured in its turn"


REFUSED = replace(
    scenario("too-many"), topic=TopicSpec(partitions=3, replication_factor=4), refusal="INVALID_REPLICATION_FACTOR"
)


@pytest.mark.parametrize(
    ("answer", "left", "own", "verdict", "words"),
    [
        (TopicRefusedError("no", "INVALID_REPLICATION_FACTOR"), False, True, Verdict.PASS, ""),
        (TopicRefusedError("no", "INVALID_REPLICATION_FACTOR"), False, False, Verdict.PASS, ""),
        (TopicRefusedError("no", "INVALID_REPLICATION_FACTOR"), True, True, Verdict.BROKEN, "and yet it is there"),
        (TopicRefusedError("no", "POLICY_VIOLATION"), False, True, Verdict.BROKEN, "was to be refused with INVALID"),
        (TopicRefusedError("timed out"), False, False, Verdict.INVALID, "timed out"),
        (None, False, True, Verdict.BROKEN, "the brokers created its topic"),
        (None, False, False, Verdict.INVALID, "the brokers created its topic"),
    ],
)
def test_a_topic_must_be_refused_with_the_right_error_and_leave_nothing(
    answer: Exception | None, left: bool, own: bool, verdict: Verdict, words: str
) -> None:
    keeper = Mock(create=Mock(side_effect=answer), exists=lambda name: left)
    found = refusal_round(RoundTopics(keeper, "r"), REFUSED, 1, own_brokers=own)
    one = replace(measurement([1000.0]), scenario=REFUSED, rounds=(found, found))
    outcome = judge_scenario(one, None)
    assert outcome.verdict is verdict
    assert words in " ".join(outcome.reasons)
    assert keeper.delete.called is (answer is None), "what was created by mistake is deleted"


def two_blocks() -> list[Scenario]:
    """Return rows of two families, each a block, and one that both are compared with."""
    base = scenario("base", ("a", "b"))
    return [base, *(scenario(f"{family}{n}", (family,)) for family in "ab" for n in range(3))]


BLOCKS = {frozenset({"base", "a0", "a1", "a2"}), frozenset({"base", "b0", "b1", "b2"})}


class Dying(Driver):
    """Brokers of the first cluster end with the n-th of its measured loads, which does not see it."""

    def __init__(self, world: World, at: int) -> None:
        super().__init__(world)
        self._at = at

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        found = super().run(spec, observer)
        if sum(count for what, count in self._world.done.items() if what.startswith("load ")) == self._at:
            self._world.clusters[0].dead = "a broker has ended"
        return found


@pytest.mark.parametrize("at", [6, 4 * TIER.rounds], ids=["in the middle", "with the last load"])
def test_brokers_that_end_cost_their_own_block_alone(at: int) -> None:
    """Every later block of such a cluster was given the dead one: all its scenarios were BROKEN without a round."""
    world, rows = World(), two_blocks()
    with world.running():
        setup = fake_setup(world, rows, tier=TIER, driver=Dying(world, at))
        found = Campaign(setup=setup, stop=GateStopRule(profile=None, rounds=TIER.rounds))
        for row in rows:
            found.measure(row)
    assert [one.name for one in world.clusters] == ["cluster-1", "cluster-2"]
    for row in rows[:4]:
        assert judge_scenario(found.measured[row.name], None).verdict is Verdict.BROKEN
    for row in rows[4:]:
        rounds = found.measured[row.name].rounds
        assert [one.invalid for one in rounds] == [()] * TIER.rounds


def earlier(found: Campaign) -> dict[tuple[str, str], Measurement]:
    """Return what a campaign leaves to the run that continues it."""
    return {**found.baselines, **{(m.scenario.families[0], name): m for name, m in found.measured.items()}}


def test_what_a_block_measured_is_kept_before_the_next_begins() -> None:
    rows = two_blocks()
    found, done = campaign(rows)
    kept: list[tuple[int, int]] = []
    found.keep = lambda: kept.append((len(done), len(earlier(found))))
    for row in rows:
        found.measure(row)
    assert kept == [(1, 4), (2, 8)], "all rows of the block, those too whose tests come later"


@pytest.mark.parametrize("blocks_done", [0, 1, 2])
def test_a_continued_campaign_measures_what_is_left(blocks_done: int) -> None:
    rows = two_blocks()
    whole, _ = campaign(rows)
    for row in rows:
        whole.measure(row)
    first, _ = campaign(rows)
    for row in rows[: [0, 4, 7][blocks_done]]:
        first.measure(row)
    second, done = campaign(rows)
    second.earlier, second.earlier_blocks = earlier(first), BLOCKS
    for row in rows:
        second.measure(row)
    assert len(done) == 2 - blocks_done
    assert list(second.measured) == list(whole.measured)
    assert list(second.baselines) == list(whole.baselines)
    for name, one in first.measured.items():
        assert second.measured[name] is one


def test_a_block_that_is_not_whole_is_measured_anew() -> None:
    rows = two_blocks()
    first, _ = campaign(rows)
    first.measure(rows[0])
    second, done = campaign(rows)
    second.earlier = {key: one for key, one in earlier(first).items() if key != ("a", "a2")}
    second.earlier_blocks = BLOCKS
    second.measure(rows[0])
    assert done == [["base", "a0", "a1", "a2"]], "its rounds are interleaved: none without the others"


def test_what_was_measured_apart_is_no_block() -> None:
    """Another selection puts scenarios together whose rounds are of different moments."""
    rows = two_blocks()
    first, _ = campaign(rows)
    for row in rows:
        first.measure(row)
    chosen = [rows[1], replace(rows[4], families=("a",))]
    second, done = campaign(chosen)
    second.earlier = {("a", row.name): first.measured[row.name] for row in chosen}
    second.earlier_blocks = BLOCKS
    second.measure(chosen[0])
    assert done == [["a0", "b0"]]


def test_a_confirmation_run_is_made_once_and_kept() -> None:
    rows = two_blocks()
    found, done = campaign(rows)
    kept: list[int] = []
    found.keep = lambda: kept.append(len(found.measured_again))
    found.again([rows[1]], {"a0", "a1"})
    assert (done, kept) == ([["a0", "a1"]], [2])
    found.again([rows[2]], {"a0", "a1"})
    found.again([rows[4]], {"a0", "a1", "b0"})
    assert done == [["a0", "a1"], ["b0"]], "what was measured again is not measured a third time"
    pair = found.again([rows[1], rows[5]], {"a0", "a1", "b0", "b1"})
    assert pair is not None
    assert done[2:] == [["a0", "b1"]], "both sides of a relation come from one cluster"
    assert rate(pair["a0"]) == rate(pair["b1"])


def test_faults_that_were_measured_before_a_run_was_broken_off_are_kept_and_continued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A nightly's eighteen take three quarters of an hour, on brokers of the same kind."""
    rows = [
        FaultScenario.of(scenario(f"fault-{n}", ("failover",)), Fault(kind="kill-leader", hold_s=1.0)) for n in range(4)
    ]
    done: list[str] = []

    def measured(_setup: object, rows: list[Scenario], _run_id: str) -> Iterator[Measurement]:
        for row in rows:
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(row.name)
            yield replace(measurement([1000.0]), scenario=row)

    monkeypatch.setattr("perfgate.measure.campaign.measure_faults", measured)

    def campaign_of() -> Campaign:
        setup: Any = Mock(scenarios=rows, tier=TIER, cannot=lambda row: None, run_id="r")
        return Campaign(setup=setup, stop=Mock())

    first = campaign_of()
    kept: list[int] = []
    first.keep = lambda: kept.append(len(first.measured))
    with pytest.raises(KeyboardInterrupt):
        first.measure(rows[0])
    assert (kept, list(first.measured)) == ([1, 2], ["fault-0", "fault-1"])
    second = campaign_of()
    second.earlier, second.earlier_blocks = (
        earlier(first),
        {frozenset({"fault-0", "fault-3"}), frozenset({"fault-1", "fault-2"})},
    )
    done.clear()
    assert second.measure(rows[0]) is first.measured["fault-0"]
    assert done == ["fault-2", "fault-3"], "the third had begun, and was not measured"
    assert list(second.measured) == [row.name for row in rows]


def test_a_block_that_is_measured_anew_is_not_confirmed_by_a_second_look_of_before() -> None:
    """A red of another selection (--resume --family) was taken back by what the interrupted run had measured again."""
    rows = two_blocks()
    first, _ = campaign(rows)
    first.measure(rows[1])
    first.again([rows[1]], {"a0"})
    for left, kept in (([rows[1]], False), (rows, True)):
        second, done = campaign(left)
        second.earlier, second.earlier_blocks = earlier(first), BLOCKS
        second.measured_again.update(first.measured_again)
        second.measure(rows[1])
        found = second.again([rows[1]], {"a0"})
        assert found is not None
        assert (found["a0"] is first.measured_again["a0"]) is kept
        assert done == ([] if kept else [["a0"], ["a0"]])
