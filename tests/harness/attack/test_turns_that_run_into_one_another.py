"""Two loads in turns: overlaps that went unnoticed, slow records that were dropped, a stall that was the brokers'.

Where the gap was longer than the least, 0.4 s, a burst of four turns had at most one that could be found late, and one
was tolerated. Of two turns in a row the first one's last records had no latency. A generator that stood still from
before its turn on made the brokers slower.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from perfgate.load.engine import _late
from perfgate.load.producing import STALL_S
from perfgate.load.schedule import Window, now, timetable
from perfgate.model import Load, settings
from perfgate.model.histogram import merged
from perfgate.model.load import Late, LoadError, LoadSpec, Observer, Pace
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build.transactions import TRANSACTED, brokers, request, sender

RATE = 300
PACED = replace(TRANSACTED, transaction_ms=0, load=Load(kind="paced", rate=RATE))
AT = Pace(gap_s=0.5, window_s=0.5, buffer_kib=32_768)
UNSEEN = Observer(edge=lambda _at: None, check=lambda: None, progress=lambda *_: None, written=lambda: 0)


@pytest.fixture(scope="module")
def slow_brokers() -> object:
    with brokers(1, rtt_ms=650) as addresses:
        yield addresses


@pytest.mark.parametrize("order", ["BAAB"])
def test_each_record_due_in_a_turn_has_its_latency_and_each_overlap_is_told(order: str, slow_brokers: str) -> None:
    """Brokers that answer after 0.65 s, and gaps of 0.5 s."""
    spec = LoadSpec(
        scenario=PACED,
        bootstrap=slow_brokers,
        security=(),
        topic="t",
        run_id="20261124T000000Z-abcd",
        seed=1,
        window_s=1,
        warmup_max_s=1,
    )
    found, late = LibrdkafkaDriver().take_turns({"A": spec, "B": spec}, order, AT, UNSEEN)
    first, second = order[0], order[1]
    assert late == {first: Late(turns=1, of=1), second: Late(turns=2, of=2)}
    for result in found.values():
        assert result.sent is not None
        latencies = merged([result.sent.latency])
        assert latencies.get_total_count() == pytest.approx(2 * AT.window_s * RATE, abs=4)
        assert latencies.get_min_value() >= 650_000
        assert result.sent.due_in_window == latencies.get_total_count()


@pytest.mark.parametrize(
    ("order", "side", "flags", "late"),
    [
        ("ABBA", "A", [0, 1, 0], (1, 1)),
        ("ABBA", "A", [1, 0, 1], (0, 1)),  # the other side's warm-up is not measured, and nothing follows the last
        ("ABBA", "B", [1, 0, 0], (1, 2)),
        ("ABBA", "B", [0, 1, 1], (1, 2)),
        ("BAAB", "A", [1, 1, 1], (2, 2)),
        ("BAAB", "B", [1, 1, 1], (1, 1)),
    ],
)
def test_only_turns_before_a_measured_one_of_the_other_side_can_be_late(
    order: str, side: str, flags: list[int], late: tuple[int, int]
) -> None:
    clients = [{"late_turns": [0, 0, 0]}, {"late_turns": flags}]
    assert _late(timetable(order, 0.0, AT), side, clients) == Late(turns=late[0], of=late[1])


@pytest.mark.parametrize(
    ("began_ago", "opened_ago", "stalled"), [(0.1, 0.0, 0.0), (1.2, 0.8, 0.8), (3.0, 2.5, 2.0), (2 * STALL_S, -1, 0.0)]
)
def test_a_generator_that_stood_still_before_its_turn_stood_still_in_it(
    began_ago: float, opened_ago: float, stalled: float, slow_brokers: str
) -> None:
    """A window of 2 s, of which so much had gone before the thread was back."""
    told = request(PACED, slow_brokers)
    one = sender({**told, "turns": [[0, 0, 0]]}, 0, Window())
    began = now()
    one._take_turn(began - began_ago, began - opened_ago, began - opened_ago + min(2.0, opened_ago + 0.1))
    assert one.stalled_in_window_s == pytest.approx(stalled, abs=0.2)


def test_generators_do_not_end_themselves_before_long_turns_are_over(generators_by: Callable[..., None]) -> None:
    """A Prometheus that scrapes once a minute takes turns of 300 s; a generator ended itself after 1,041."""
    told = list[Mapping[str, Mapping[str, float]]]()

    def begun(workers: Mapping[str, Mapping[str, float]]) -> object:
        told.append(workers)
        raise LoadError("far enough")

    generators_by(begun)
    at = replace(AT, window_s=300.0)
    spec = LoadSpec(
        scenario=PACED, bootstrap="", security=(), topic="t", run_id="r", seed=1, window_s=10, warmup_max_s=6
    )
    with pytest.raises(LoadError, match="far enough"):
        LibrdkafkaDriver().take_turns({"A": spec, "B": spec}, "ABBA", at, UNSEEN)
    (workers,) = told
    assert min(worker["most_s"] for worker in workers.values()) > timetable("ABBA", 0.0, at)[-1].closes + 60


def test_what_slow_brokers_leave_in_the_buffer_is_withdrawn_and_spoils_no_turn() -> None:
    """16 times slower brokers were INVALID: a buffer of some seconds was still under way in the other side's turns."""
    capped = replace(
        PACED,
        load=Load(kind="capped", rate=5000.0),
        producer=settings({"acks": -1, "max.in.flight.requests.per.connection": 1, "batch.num.messages": 1}),
    )
    with brokers(1, rtt_ms=60) as addresses:
        spec = LoadSpec(
            scenario=capped,
            bootstrap=addresses,
            security=(),
            topic="t",
            run_id="20261124T000000Z-abcd",
            seed=1,
            window_s=1,
            warmup_max_s=1,
        )
        found, late = LibrdkafkaDriver().take_turns({"A": spec, "B": spec}, "ABBA", AT, UNSEEN)
    assert {side: one.turns for side, one in late.items()} == {"A": 0, "B": 0}
    for result in found.values():
        sent = result.sent
        assert sent is not None
        assert sent.withdrawn > 10 * sent.acked > 0, "a record for each of four partitions in 60 ms"
        assert sent.attempted == sent.acked + sent.withdrawn
        assert not sent.failed
        assert sent.acked_in_window <= 2 * AT.window_s * 4 / 0.06 + 8
