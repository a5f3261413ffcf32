"""pulsar-perf on real Pulsar brokers: its windows, its sums, and what it is told to log in with."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from perfgate.host.guard import Guard
from perfgate.host.java import find_java
from perfgate.load.tools import Tools
from perfgate.model import Consumers, Load, settings
from perfgate.model.histogram import latency_metrics
from perfgate.model.load import LoadError
from perfgate.systems.pulsar.jars import tool_jars
from perfgate.systems.pulsar.load.libpulsar import LibpulsarDriver
from perfgate.systems.pulsar.load.official import parse_produced
from perfgate.systems.pulsar.load.perf import PulsarPerfDriver
from perfgate.systems.pulsar.managed.embedded import PulsarTarget
from tests.harness.live.test_live_pulsar_load import BASE, SPEC, Live

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    target = PulsarTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    target.prepare([SPEC])
    try:
        yield Live(target.cluster(SPEC))
    finally:
        target.close()


@pytest.fixture
def driver() -> PulsarPerfDriver:
    return PulsarPerfDriver(java=find_java(), classpath=tool_jars(SPEC.version).classpath)


def test_what_it_counts_is_what_the_brokers_hold(live: Live, driver: PulsarPerfDriver) -> None:
    row = replace(BASE, load=Load(kind="capped", rate=3_000), producers=2)
    with live.topic(row) as topic:
        result = driver.run(live.spec(row, topic), live.observer(topic))
        sent = result.sent
        assert sent is not None
        assert sent.attempted == sent.acked == sum(live.ends(topic))
    assert result.window_s == pytest.approx(10.0, abs=2.0)
    assert sent.acked_in_window / result.window_s == pytest.approx(3_000, rel=0.05)
    assert 0 < latency_metrics([sent.latency])["latency_ms.p50"] < 5_000
    assert result.cpu_cores > 0


def test_a_full_buffer_is_seen(live: Live, driver: PulsarPerfDriver) -> None:
    row = replace(BASE, load=Load(kind="capped", rate=900_000), producer=settings({"maxPendingMessages": "100"}))
    with live.topic(row) as topic:
        sent = driver.run(live.spec(row, topic), live.observer(topic)).sent
        assert sent is not None
        assert sent.acked == sum(live.ends(topic))
        assert sent.pushback_in_window_s > 0


@pytest.mark.parametrize(("records", "lasts"), [(50_000, False), (2_000_000, True)])
def test_a_backlog_is_measured_where_it_lasts(live: Live, driver: PulsarPerfDriver, records: int, lasts: bool) -> None:
    reading = Consumers(membership="shared")
    row = replace(BASE, record_bytes=100, load=Load(kind="backlog", records=records), consumers=reading)
    with live.topic(row) as topic:
        spec = replace(live.spec(row, topic), window_s=2.0, warmup_max_s=0.0)
        LibpulsarDriver().fill(spec, live.observer(topic))
        if not lasts:
            with pytest.raises(LoadError, match="had read the backlog of 50,000 records"):
                driver.run(spec, live.observer(topic))
            return
        received = driver.run(spec, live.observer(topic)).received
        assert received is not None
        assert 0 < received.received_in_window < received.read < records
        assert received.received_bytes_in_window / received.received_in_window == pytest.approx(100, rel=0.02)


def test_a_topic_that_is_not_there_is_named_with_its_error(live: Live, driver: PulsarPerfDriver) -> None:
    with live.topic(BASE) as topic:
        spec = replace(live.spec(BASE, topic), topic=f"{topic}-none")
        with pytest.raises(LoadError, match=r"TopicDoesNotExist|NotFound"):
            driver.run(spec, live.observer(topic))


def test_what_it_logs_in_with_is_in_none_of_its_lines(live: Live, driver: PulsarPerfDriver) -> None:
    """It writes all its settings when it starts, authParams among them."""

    plugin = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
    secured = settings({"authPlugin": plugin, "authParams": "token:not-to-be-seen"})
    with live.topic(BASE) as topic, Guard() as guard:
        spec = replace(live.spec(BASE, topic), security=secured)
        tools = Tools(guard, live.observer(topic))
        tools.start(driver._command(spec, tools.folder, "produce", "-i", "1", topic))
        tools.wait_for(lambda: bool(parse_produced(tools.outputs()[0])), "reporting", bound_s=60)
        assert "not-to-be-seen" not in tools.outputs()[0]
