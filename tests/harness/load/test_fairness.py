"""A producer serves partitions of a broker alike, hears reports in bounded time, and uses room at once."""

import time
from dataclasses import replace

from perfgate.load.schedule import Window, now
from perfgate.model import Load, settings
from perfgate.model.histogram import figures_of
from tests.harness.build.transactions import TRANSACTED, brokers, request, sender


def test_no_partition_of_a_broker_waits_for_the_others() -> None:
    """One request in flight, answered after 5 ms: 200 requests/s for 2,000 records/s, each for one of 4 partitions."""
    row = replace(
        TRANSACTED,
        transaction_ms=0,
        load=Load(kind="paced", rate=2_000),
        producer=settings({"max.in.flight.requests.per.connection": 1, "linger.ms": 0, "log_level": 0}),
    )
    window = Window()
    with brokers(1, rtt_ms=5) as addresses:
        one = sender(request(row, addresses), 0, window)
        one.connect()
        start = now()
        window.set(start + 1, start + 3)
        one.run(start)
    p99_ms = [ms for _, ms in figures_of(one.result()["latency_by_partition"])]
    assert max(p99_ms) < 5 * min(p99_ms)


def test_reports_are_heard_for_a_bounded_time() -> None:
    """A hundred requests of one record each: as many reports, which may not all be taken at once."""
    row = replace(
        TRANSACTED,
        transaction_ms=0,
        load=Load(kind="capped", rate=1_000),
        producer=settings({"batch.num.messages": 1, "log_level": 0}),
    )
    window = Window()
    with brokers(1) as addresses:
        one = sender({**request(row, addresses), "records": 100}, 0, window)
        one.connect()
        heard: list[int] = []
        one._send(one._make(100, now()), 0)
        until = now() + 10
        while sum(heard) < 100 and now() < until:
            heard.append(one.client.take(one.outcomes.hear, -1.0))  # over as soon as one was taken
    assert sum(heard) == 100
    assert max(heard) == 1


def test_a_record_that_waits_for_the_one_before_is_sent_as_soon_as_that_is_acknowledged() -> None:
    row = replace(
        TRANSACTED,
        transaction_ms=0,
        load=Load(kind="capped", rate=100_000),
        producer=settings({"queue.buffering.max.messages": 1, "linger.ms": 0, "log_level": 0}),
    )
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    with brokers(1) as addresses:
        one = sender({**request(row, addresses), "records": 50}, 0, Window(), sleep=sleep)
        one.connect()
        one.run(now())
    assert one.result()["acked"] == 50
    assert len(slept) < 10, "it waits for the acknowledgement, not for a while"
