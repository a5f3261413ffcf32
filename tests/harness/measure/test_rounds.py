"""Blocks of rows, with their topics and their rounds, without brokers."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.judge.gate_stop import GateStopRule
from perfgate.measure.plan import REPEATS, most_rounds, repeats, with_extra_rounds
from perfgate.measure.rounds import Rounds
from perfgate.metrics.process import process_sampler
from perfgate.model import Consumers, Load, Measurement, Round, Scenario
from perfgate.model.errors import LimitReachedError, TargetError
from perfgate.model.load import LoadError, LoadResult, LoadSpec, Observer, Progress, SendsFailedError
from perfgate.model.target import Meter
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build import load_result, one_round, scenario, sent
from tests.harness.build.benches import TIER, Bench, Cluster, FakeSetup, WarmsUp, bench_of
from tests.harness.live_load import row

CAPPED = Load(kind="capped", rate=1_000.0)
BACKLOG: Scenario = row(scenario(), load=Load(kind="backlog", records=10), consumers=Consumers(membership="assigned"))
OBSERVER = Observer(edge=lambda _at: None, check=lambda: None, progress=lambda phase, last: None, written=lambda: 0)


def test_a_backlog_that_was_written_in_part_is_not_read() -> None:
    created: list[str] = []
    deleted: list[str] = []
    outcomes: list[Exception | None] = [LoadError("only 4 of 10"), None]
    keeper: Any = Mock(create=lambda name, *_: created.append(name), delete=lambda name, *_: deleted.append(name))

    class Filling(LibrdkafkaDriver):
        def fill(self, spec: LoadSpec, observer: Observer) -> None:
            if error := outcomes.pop(0):
                raise error

    cluster: Any = Cluster()
    say: Any = lambda text, left_s: None  # noqa: E731 - Say has a second method, which is not called
    block = bench_of(cluster, say, process_sampler(dict), Filling())
    block.topics.keeper = keeper
    with suppress(LoadError):
        block._backlog(BACKLOG, OBSERVER)
    assert deleted == created[:1]
    assert block._backlog(BACKLOG, OBSERVER) == block._backlog(BACKLOG, OBSERVER) == created[1]
    assert (len(created), len(deleted)) == (2, 1)


@pytest.mark.parametrize(("shares_cores", "flaws"), [(True, 0), (False, 1)])
def test_processors_that_brokers_use_up_limit_a_load_on_their_own_machine_alone(
    cores: Callable[[int], None], shares_cores: bool, flaws: int
) -> None:
    cores(4)
    cluster: Any = Cluster()
    cluster.own = cluster.dedicated = True
    sampler: Any = Sampling({"broker_cpu_cores.sum": 2.9, "broker_cpu_cores.max": 1.0})
    bench = bench_of(cluster, None, sampler, shares_cores=shares_cores)
    short = replace(load_result(sent=sent(attempted_in_window=1800)), cpu_cores=0.9)
    done = bench.finished(row(scenario(), load=CAPPED), 1, short, [0], [3000], [-1], sampler)
    assert len(done.round.invalid) == flaws


@pytest.mark.parametrize("loses", [0, 5])
@pytest.mark.parametrize("how", ["at its end", "all of them"])
def test_sends_that_fail_at_the_very_end_stop_the_run_too(how: str, loses: int) -> None:
    """No progress told of them: the next scenario loaded brokers that had just lost what they were sent."""

    class Failing(LibrdkafkaDriver):
        def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
            if how == "all of them":
                raise SendsFailedError("none was taken", attempted=5, failed=loses)
            return load_result(sent=sent(failed={"_MSG_TIMED_OUT": loses}))

    cluster = limited(math.inf)
    say: Any = lambda text, left_s: None  # noqa: E731 - Say has a second method, which is not called
    sampler = MagicMock(unavailable="", why_missing="", gives=())
    sampler.metrics.return_value = sampler.over_time.return_value = {}
    bench = bench_of(cluster, say, sampler, Failing())
    bench.topics = MagicMock()
    bench.topics.ends.return_value, bench.topics.ends_after.return_value = [0], [3000]
    bench.topics.leaders.return_value = [1, 2, 3]
    capped = row(scenario(), load=CAPPED)
    if not loses:
        bench.round(capped, 1, None, "round 1/3")
        assert (cluster.meter.stopped, cluster.meter._under_way > 0) == ("", how == "at its end")
        return
    with pytest.raises(TargetError, match=r"5 of .* sends failed"):
        bench.round(capped, 1, None, "round 1/3")
    assert cluster.meter.stopped


@pytest.mark.parametrize(("by_limit", "unhealthy"), [(False, True), (True, False)])
def test_a_run_that_the_targets_state_stopped_says_so_and_one_at_its_own_limit_does_not(
    by_limit: bool, unhealthy: bool
) -> None:
    """A broker killed in the warm-up, and [limits] minutes that were over, were the same to a CI."""
    cluster, setup = limited(math.inf), MagicMock()
    cluster.log_tail = lambda: ""
    setup.driver.latency_basis.return_value = setup.driver.by_hand.return_value = ""
    setup.bench.return_value.warm_up.side_effect = lambda _: cluster.meter.stop("stopped", by_limit=by_limit)
    setup.tier = TIER
    measuring = Rounds(cluster, setup, run_id="r", stop=MagicMock())
    found = measuring.measure([scenario()])
    ((one,),) = (measurement.rounds for measurement in found.values())
    assert one.invalid == ("target unhealthy: stopped",)
    assert one.target_unhealthy is unhealthy
    with pytest.raises(LimitReachedError if by_limit else TargetError):
        cluster.meter.stay_stopped()


def limited(most: float) -> Any:
    """Return real brokers that may be written so many bytes, and fail no send."""
    cluster: Any = Cluster()
    cluster.meter, cluster.most_failed, cluster.own = Meter(most), 0.0, False
    cluster.dedicated = False
    cluster.check = lambda: None
    return cluster


@pytest.mark.parametrize("ends", ["failing", "none taken", "too many", "well"])
def test_what_a_warm_up_did_last_is_held_against_the_limits_too(ends: str) -> None:
    """Brokers that had lost a third of what they were sent were warmed up on, and loaded with the next scenario."""

    class Ending(LibrdkafkaDriver):
        def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
            if ends == "none taken":
                raise SendsFailedError("none was taken", attempted=5, failed=5)
            return load_result(sent=sent(acked=2000, failed={"_MSG_TIMED_OUT": 1000} if ends == "failing" else {}))

    cluster = limited(1e6 if ends == "too many" else 1e9)
    bench = bench_of(cluster, MagicMock(), MagicMock(return_value=MagicMock(read=None)), Ending())
    bench.topics = MagicMock()
    words = {
        "failing": "1000 of 3000 sends failed",
        "none taken": "5 of 5 sends",
        "too many": "bytes allows",
        "well": "",
    }
    with pytest.raises(TargetError, match=words[ends]) if words[ends] else nullcontext():
        bench._warm_slice(row(scenario(), load=CAPPED), 5.0)
    assert words[ends] in cluster.meter.stopped


@pytest.mark.parametrize(
    ("failed", "records", "words"), [(1, 10, "1 of 10 sends"), (0, 10**6, "bytes allows"), (0, 10, "")]
)
def test_a_backlog_is_held_against_the_limits_while_it_is_written_and_at_its_end(
    failed: int, records: int, words: str
) -> None:
    class Filling(LibrdkafkaDriver):
        def fill(self, spec: LoadSpec, observer: Observer) -> None:
            observer.sends(Progress(at=0.0, attempted=10, done=10 - failed, failed=failed))

    cluster = limited(1e6)
    bench = bench_of(cluster, MagicMock(), process_sampler(dict), Filling())
    bench.topics.keeper = MagicMock()
    backlog = row(BACKLOG, load=Load(kind="backlog", records=records))
    observer = bench.watch.observer(backlog, MagicMock(), lambda *_: None)
    with pytest.raises(TargetError, match=words) if words else nullcontext():
        bench._backlog(backlog, observer)
    assert words in cluster.meter.stopped
    assert cluster.meter.written == (0 if words else records * backlog.logged_bytes)


@dataclass
class Sampling:
    """Stands where brokers' counters would be read."""

    told: dict[str, float]
    gives: tuple[str, ...] = ()
    unavailable = why_missing = ""

    def metrics(self, _rate: float, _windows: Sequence[int]) -> dict[str, float]:
        return self.told


pytestmark = pytest.mark.usefixtures("canary")


def measured(bench: Bench, hosts: int = 1) -> Measurement:
    setup: Any = FakeSetup(bench, hosts=hosts)
    stop = GateStopRule(profile=None, rounds=TIER.rounds)
    return Rounds(setup, setup, run_id="r", stop=stop).measure([scenario()])["batch-1k"]


def test_only_rows_that_warm_up_and_those_compared_with_them_get_another_round() -> None:
    setup: Any = FakeSetup(Bench([GOOD]))
    rows = [
        scenario("slow", ("a",)),
        scenario("partner", ("a", "b")),
        scenario("third", ("b",)),
        scenario("far", ("c",)),
    ]
    stop: Any = WarmsUp("slow", TIER.rounds + 2)
    found = Rounds(setup, setup, run_id="r", stop=stop).measure(rows)
    assert {name: len(m.warm_up) for name, m in found.items()} == {"slow": 2, "partner": 2, "third": 2, "far": 0}
    assert {len(m.rounds) for m in found.values()} == {TIER.rounds}
    assert [r.index for r in found["slow"].rounds] == [r.index for r in found["third"].rounds] == [3, 4]


def test_what_was_ended_early_keeps_its_rounds_when_others_get_more() -> None:
    """All of its rounds counted as those of brokers that warm up: INVALID, "no round was measured"."""

    class Wild(WarmsUp):
        def hopeless(self, scenario: Any, earlier: Any) -> bool:
            return scenario.name == "wild" and len(earlier) >= 1

    setup: Any = FakeSetup(Bench([GOOD]))
    stop: Any = Wild("slow", TIER.rounds + 2)
    found = Rounds(setup, setup, run_id="r", stop=stop).measure([scenario("slow", ("a",)), scenario("wild", ("a",))])
    assert [r.index for r in found["slow"].rounds] == [3, 4]
    assert [r.index for r in found["wild"].rounds] == [1]


@pytest.mark.parametrize("again", [False, True])
def test_a_scenario_that_had_enough_is_measured_no_further_and_keeps_its_rounds(again: bool) -> None:
    """Also where another gets more rounds, for brokers that warm up; the confirmation run is measured whole."""

    class Sure(WarmsUp):
        def sure(self, scenario: Any, block: Any) -> bool:
            return scenario.name == "quiet" and len(block["quiet"].rounds) >= 1

    setup: Any = FakeSetup(Bench([GOOD]))
    stop: Any = Sure("slow", TIER.rounds + 2)
    rows = [scenario("slow", ("a",)), scenario("quiet", ("a",))]
    found = Rounds(setup, setup, run_id="r", stop=stop, again=again).measure(rows)
    assert [r.index for r in found["slow"].rounds] == [3, 4]
    assert [r.index for r in found["quiet"].rounds] == ([3, 4] if again else [1])
    assert found["quiet"].enough == ("" if again else "1 of 2 rounds were enough: all its limits are kept by far")


GOOD = one_round(1, 1000)
DELAYED = one_round(1, 1000, spoilt={"latency_ms": "sent late"})
SATURATED = one_round(1, 1000, invalid=("generator saturated",))


@pytest.mark.parametrize(
    ("gives", "discarded"),
    [
        ([GOOD], 0),
        ([SATURATED, GOOD], 1),
        ([DELAYED], REPEATS),
        ([SATURATED], REPEATS),
        # What delays used up is still there for rounds that do not count at all.
        ([*[DELAYED] * (REPEATS + 1), *[SATURATED] * REPEATS, GOOD], 2 * REPEATS),
    ],
)
def test_rounds_that_the_generator_spoilt_are_repeated(gives: Sequence[Round], discarded: int) -> None:
    found = measured(Bench(list(gives)))
    assert len(found.discarded) == discarded
    assert bool(found.rounds[-1].invalid) == (gives[-1] is SATURATED)


@pytest.mark.parametrize(("rounds", "most"), [(2, 2), (3, 2), (7, 3), (15, 7)])
def test_more_rounds_have_more_tries(rounds: int, most: int) -> None:
    """Three of ten rounds of a nightly were sent late; two tries for seven rounds left it undecided."""
    assert repeats(replace(TIER, rounds=rounds)) == most
    assert most_rounds(replace(TIER, rounds=rounds), own=False) == 2 * rounds + 2 * most


def test_rounds_of_compiling_brokers_are_followed_by_others_and_not_judged() -> None:
    cold, warm = (replace(GOOD, metrics={**GOOD.metrics, "broker_compile_share.max": share}) for share in (0.5, 0))
    bench = Bench([cold, cold, cold, warm])
    found = measured(bench)
    assert [[r.index for r in part] for part in (found.warm_up, found.rounds)] == [[1, 2, 3], [4, 5]]
    assert len(bench.notes) == 3
    for_ever = measured(Bench([cold]))
    assert len(for_ever.warm_up + for_ever.rounds) == with_extra_rounds(TIER, own=True)
    assert "50, 50 % of a broker's CPU compiled its code" in for_ever.warming


def test_rounds_on_one_host_fewer_are_taken_beside_the_others_in_turns_first_and_second() -> None:
    bench = Bench([GOOD])
    found = measured(bench, hosts=3)
    assert bench.loaded == [(1, 0), (1, 2), (2, 2), (2, 0)]
    assert [r.index for r in found.rounds] == [r.index for r in found.one_host_fewer] == [1, 2]
    assert measured(Bench([GOOD])).one_host_fewer == ()


def test_rounds_on_one_host_fewer_of_brokers_that_warmed_up_are_not_judged() -> None:
    cold, warm = (replace(GOOD, metrics={**GOOD.metrics, "broker_compile_share.max": share}) for share in (0.5, 0))
    found = measured(Bench([cold, cold, cold, cold, warm]), hosts=2)
    assert [r.index for r in found.rounds] == [r.index for r in found.one_host_fewer] == [3, 4]


def test_what_is_invalid_on_one_host_fewer_is_not_measured_so_again() -> None:
    bench = Bench([GOOD, *[SATURATED] * (REPEATS + 1), GOOD])
    found = measured(bench, hosts=2)
    assert bench.loaded == [(1, 0), *[(1, 1)] * (REPEATS + 1), (2, 0)]
    assert ([bool(r.invalid) for r in found.rounds], len(found.one_host_fewer)) == ([False, False], 1)
    assert found.one_host_fewer[0].invalid
    assert found.discarded == ()
