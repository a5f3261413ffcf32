"""Rounds of several load hosts that are invalid: one began late or was at its limit, or clocks do not fit."""

from dataclasses import replace

import pytest

from perfgate.load.host_reports import host_reports
from perfgate.load.transport import HostClock
from perfgate.measure.host_validity import fault_host_flaws, host_flaws, spoilt_by_clocks
from perfgate.model import Load
from perfgate.model.histogram import merged
from perfgate.model.load import LoadResult
from tests.harness.build import histogram, load_result, received, sent
from tests.harness.build.hosts import HOST, MACHINE

PACED = Load(kind="paced", rate=500)


def test_a_host_is_named_that_began_late_or_perhaps_did() -> None:
    late, unsure = replace(HOST, name="host-2", started_late_ms=60.0), replace(HOST, name="host-3", clock_bound_ms=50.0)
    reasons = [flaw.text for flaw in host_flaws(PACED, load_result(hosts=(HOST, late, unsure)))]
    assert [reason.partition(" began ")[0].rpartition(" ")[2] for reason in reasons] == ["host-2", "host-3"]
    assert host_flaws(PACED, load_result(hosts=(HOST, replace(HOST, started_late_ms=49.0)))) == []
    (early,) = host_flaws(PACED, load_result(hosts=(replace(HOST, started_late_ms=-60.0), HOST)))
    assert "began 60.0 ms before the agreed moment" in early.text


@pytest.mark.parametrize(("median_ms", "refused"), [(5.0, True), (7.0, False)])
def test_an_end_to_end_latency_across_clocks_is_refused_alone(median_ms: float, refused: bool) -> None:
    """Two clocks, each known to 0.3 ms: 0.6 ms is over a tenth of 5 ms."""
    result = across(median_ms)
    assert [flaw.metrics for flaw in host_flaws(PACED, result)] == ([("end_to_end_latency_ms",)] if refused else [])
    assert host_flaws(PACED, replace(result, hosts=(HOST,))) == [], "one host has one clock"
    assert host_flaws(PACED, replace(result, one_clock=True)) == [], "each reads what it wrote"


def across(median_ms: float) -> LoadResult:
    latencies = histogram([median_ms / 1e3])
    return load_result(sent=sent(), received=received(latency=latencies), hosts=(HOST, replace(HOST, name="host-2")))


def test_a_report_adds_the_results_of_a_hosts_processes() -> None:
    one = HostClock("host-1", ahead_s=0.25, bound_s=0.001, used_s=0.252, off_by_s=0.003)
    wrote = {
        **{"acked_in_window": 7, "cpu_cores": 0.2, "busiest_thread_cores": 0.15, "latency": histogram([0.001])},
        **{"clients": 2, "pushback_in_window_s": 1.0, "schedule_delay": histogram([0.002] * 99)},
    }
    late = {**wrote, "pushback_in_window_s": 0.0, "schedule_delay": histogram([0.008] * 99)}
    read = {"received_in_window": 9, "cpu_cores": 0.1, "busiest_thread_cores": 0.1, "latency": histogram([0.005])}
    (report,) = host_reports(
        {"consumer-1": one, "producer-1": one, "producer-2": one},
        {"consumer-1": 0.001, "producer-1": 0.003, "producer-2": 0.002},
        {"consumer-1": read, "producer-1": wrote, "producer-2": late},
        {"host-1": MACHINE},
        window_s=2.0,
    )
    assert (report.name, report.processes, report.done_in_window, report.done_by) == ("host-1", 3, 14, 2)
    assert report.cpu_cores == pytest.approx(0.5)
    assert merged([report.latency_histogram]).get_total_count() == 2
    assert report.started_late_ms == pytest.approx(5.0), "by 2 ms too much was added to each moment"
    assert (report.clock_ahead_ms, report.clock_bound_ms, report.clock_off_by_ms) == pytest.approx((250, 1, 3))
    assert (report.busiest_thread_cores, report.machine) == (0.15, MACHINE)
    assert report.pushback_share == pytest.approx(0.125), "of four clients two did so for a second of two, in turn"
    assert report.schedule_delay_p99_ms == pytest.approx(8, rel=0.01)
    assert host_reports({}, {}, {}, {}, window_s=2.0) == ()
    reads = replace(one, host="host-2")
    _, reader = host_reports(
        {"producer-1": one, "consumer-1": reads},
        {"producer-1": 0.003, "consumer-1": 0.001},
        {"producer-1": wrote, "consumer-1": read},
        {},
        window_s=2.0,
    )
    assert (reader.done_in_window, reader.done_by) == (0, 0), "what it received is no share of what was sent"
    (alone,) = host_reports({"consumer-1": reads}, {"consumer-1": 0.001}, {"consumer-1": read}, {}, window_s=2.0)
    assert (alone.done_in_window, alone.done_by) == (9, 1)
    killed = {"producer-1": replace(one, stepped_s=-0.5)}
    (report,) = host_reports(killed, {"producer-1": 0.003}, {}, {}, window_s=2.0)
    assert (report.processes, report.clock_stepped_ms) == (1, -500.0), "of a host whose one process was killed too"


@pytest.mark.parametrize(
    ("over", "within", "words"),
    [
        ({"cpu_share": 0.96}, {"cpu_share": 0.94}, "its 4 cores were 96% busy (limit 95%), of which its generators"),
        ({"throttled_share": 0.63}, {"throttled_share": 0.1}, "CPU quota held it back in 63% of the quota's periods"),
        ({"network_share": 0.93}, {"network_share": 0.89}, "eth0 carried 93% of its speed (limit 90%"),
        ({"tcp_sent_again": 1_500}, {"tcp_sent_again": 900}, "1,500 of 101,500 TCP segments (1.5%, limit 1%)"),
        ({"tcp_sent": 400, "tcp_sent_again": 100}, {"tcp_sent": 400, "tcp_sent_again": 99}, "100 of 500 TCP segments"),
    ],
)
def test_a_machine_over_its_limit_is_named(over: dict[str, float], within: dict[str, float], words: str) -> None:
    bad, good = (replace(HOST, name="load-7", machine=replace(MACHINE, **use)) for use in (over, within))  # type: ignore[arg-type]
    (flaw,) = host_flaws(PACED, load_result(hosts=(HOST, bad)))
    assert flaw.text.startswith("generator saturated on load-7: ")
    assert words in flaw.text
    assert (flaw.metrics, flaw.again, (flaw.whose == "brokers")) == ((), True, False)
    assert host_flaws(PACED, load_result(hosts=(HOST, good))) == []
    assert (
        host_flaws(PACED, load_result(hosts=(HOST, replace(HOST, machine=replace(MACHINE, network_share=None))))) == []
    )


def test_a_machine_that_brokers_share_with_the_load_is_theirs_to_use_up() -> None:
    """As with the generators of a run without --hosts: there the schedule and the buffer tell who was the limit."""
    busy = replace(HOST, machine=replace(MACHINE, cpu_share=1.0, tcp_sent_again=10_000, with_run=True))
    assert host_flaws(PACED, load_result(hosts=(busy,)), shares_cores=True) == []
    assert len(host_flaws(PACED, load_result(hosts=(busy,)), shares_cores=False)) == 2
    elsewhere = replace(HOST, machine=replace(MACHINE, cpu_share=1.0))
    assert len(host_flaws(PACED, load_result(hosts=(elsewhere,)), shares_cores=True)) == 1


def test_a_thread_at_its_limit_is_named_where_brokers_were_idle() -> None:
    busy = load_result(hosts=(HOST, replace(HOST, name="load-7", busiest_thread_cores=0.97)))
    (flaw,) = host_flaws(PACED, busy, 0.2)
    assert "generator saturated on load-7: a thread used 0.97 of a core, while the busiest broker" in flaw.text
    assert host_flaws(PACED, busy, 0.8) == host_flaws(PACED, busy) == []


def test_a_host_that_sends_late_spoils_latencies_whatever_the_others_do() -> None:
    """Of a hundred hosts: the p99 of all would not show it."""
    late = replace(HOST, name="load-7", schedule_delay_p99_ms=25.0, latency_histogram=histogram([0.1] * 99))
    told = load_result(sent=sent(), hosts=(HOST, late))
    (flaw,) = host_flaws(PACED, told)
    assert "generator saturated on load-7: p99 of its schedule delay is 25.0 ms (limit 10.0 ms)" in flaw.text
    assert flaw.metrics == ("latency_ms",)
    assert host_flaws(PACED, load_result(sent=sent(), hosts=(replace(late, schedule_delay_p99_ms=9.0),))) == []
    pushed = replace(told, hosts=(HOST, replace(late, pushback_share=0.1)))
    assert host_flaws(PACED, pushed) == [], "its buffer was full for longer: the brokers kept it waiting"
    (flaw,) = host_flaws(PACED, replace(told, sent=sent(pushback_s=0.5)))
    assert "load-7" in flaw.text, "another host's buffer was full"


def test_a_host_whose_clock_stepped_is_named_with_how_much_with_a_fault_too() -> None:
    stepped = replace(HOST, name="load-7", clock_stepped_ms=-250.0)
    (flaw,) = host_flaws(PACED, load_result(hosts=(HOST, stepped)))
    assert "the clock of the load host load-7 stepped by -250.0 ms" in flaw.text
    assert (flaw.metrics, flaw.again) == ((), True)
    assert {doubt.text for doubt in fault_host_flaws((HOST, stepped))} == {flaw.text}
    outages, others = fault_host_flaws((replace(HOST, started_late_ms=60.0),))
    assert "host-1 began 60.0 ms after" in outages.text
    assert outages.offset == pytest.approx((60.0 + HOST.clock_bound_ms) / 1e3), "an outage is longer by no more"
    assert others.factor is None
    assert fault_host_flaws((HOST,)) == fault_host_flaws(()) == []


def test_with_a_fault_latencies_are_refused_that_clocks_say_nothing_of() -> None:
    """Each host's clock is known to 0.3 ms: over a tenth of 2 ms, not of 4."""
    metrics = {
        "latency_before_ms.p50": 4.0,
        "latency_during_ms.p50": 2.0,
        "end_to_end_after_ms.p50": 2.0,
        "outage_s": 0,
    }
    found = spoilt_by_clocks((HOST, HOST), metrics)
    assert {doubt.metrics for doubt in found} == {("latency_during_ms",), ("end_to_end_after_ms",)}
    assert {doubt.offset for doubt in found} == {HOST.clock_off_by_ms}
    assert spoilt_by_clocks((), metrics) == []
