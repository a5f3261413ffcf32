"""What makes a round of several load hosts invalid: one that began late, clocks that are known too little."""

from dataclasses import replace

import pytest

from perfgate.experiment.validity import host_flaws
from perfgate.load.transport import HostClock
from perfgate.model import HostReport
from perfgate.model.histogram import merged
from perfgate.model.load import LoadResult
from perfgate.systems.kafka.load.host_shares import host_reports
from tests.harness.build import histogram, load_result, received, sent

HOST = HostReport(
    name="host-1",
    processes=1,
    done_in_window=5,
    cpu_cores=0.1,
    latency_histogram="",
    clock_ahead_ms=0.0,
    clock_bound_ms=0.2,
    clock_off_by_ms=0.3,
    started_late_ms=1.0,
)


def test_a_host_is_named_that_began_late_or_perhaps_did() -> None:
    late, unsure = replace(HOST, name="host-2", started_late_ms=60.0), replace(HOST, name="host-3", clock_bound_ms=50.0)
    reasons = [flaw.reason for flaw in host_flaws(load_result(hosts=(HOST, late, unsure)))]
    assert [reason.partition(" began ")[0].rpartition(" ")[2] for reason in reasons] == ["host-2", "host-3"]
    assert host_flaws(load_result(hosts=(HOST, replace(HOST, started_late_ms=49.0)))) == []


@pytest.mark.parametrize(("median_ms", "refused"), [(5.0, True), (7.0, False)])
def test_an_end_to_end_latency_across_clocks_is_refused_alone(median_ms: float, refused: bool) -> None:
    """Two clocks, each known to 0.3 ms: 0.6 ms is over a tenth of 5 ms."""
    result = across(median_ms)
    assert [flaw.metrics for flaw in host_flaws(result)] == ([("end_to_end_latency_ms",)] if refused else [])
    assert host_flaws(replace(result, hosts=(HOST,))) == [], "one host has one clock"


def across(median_ms: float) -> LoadResult:
    latencies = histogram([median_ms / 1e3])
    return load_result(sent=sent(), received=received(latency=latencies), hosts=(HOST, replace(HOST, name="host-2")))


def test_a_report_adds_the_results_of_a_hosts_processes() -> None:
    one = HostClock("host-1", ahead_s=0.25, bound_s=0.001, used_s=0.252, off_by_s=0.003)
    wrote = {"acked_in_window": 7, "cpu_cores": 0.2, "latency": histogram([0.001])}
    read = {"received_in_window": 9, "cpu_cores": 0.1, "latency": histogram([0.005])}
    (report,) = host_reports(
        {"consumer-1": one, "producer-1": one, "producer-2": one},
        {"consumer-1": 0.001, "producer-1": 0.003, "producer-2": 0.002},
        {"consumer-1": read, "producer-1": wrote, "producer-2": wrote},
    )
    assert (report.name, report.processes, report.done_in_window) == ("host-1", 3, 14)
    assert report.cpu_cores == pytest.approx(0.5)
    assert merged([report.latency_histogram]).get_total_count() == 2
    assert report.started_late_ms == pytest.approx(5.0), "by 2 ms too much was added to each moment"
    assert (report.clock_ahead_ms, report.clock_bound_ms, report.clock_off_by_ms) == pytest.approx((250, 1, 3))
    assert host_reports({}, {}, {}) == ()
