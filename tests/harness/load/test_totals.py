"""The results of several generator processes are added up: every count of every one."""

from dataclasses import fields
from typing import Any

from perfgate.load.engine import _load_result
from perfgate.load.host_reports import host_reports
from perfgate.load.transport import HostClock

PROCESS = {"cpu_cores": 0.5, "busiest_thread_cores": 0.4, "rss_mib": 80.0, "failed": {}, "errors": {}, "clients": 1}
SENT = {
    **PROCESS,
    **dict.fromkeys(("pushback_s", "pushback_in_window_s", "stalled_in_window_s", "committing_in_window_s"), 0.0),
    **dict.fromkeys(("attempted_in_window", "acked_in_window", "acked_bytes_in_window", "attempted", "acked"), 2),
    **dict.fromkeys(("unresolved", "unsent", "withdrawn", "throttled_ms", "due_in_window", "timed_out_in_window"), 2),
    **dict.fromkeys(("latency", "send_latency", "schedule_delay"), ""),
    "acked_by_partition": [1, 1],
    "markers_by_partition": [2, 0],
    "latency_by_partition": [0, 1, 1],
    "latency_by_topic": [1, 1],
}
READING = ("read", "received", "foreign", "corrupt", "duplicated", "reordered", "redelivered", "negative_latencies")
RECEIVED = {
    **PROCESS,
    **dict.fromkeys(
        (*READING, "missed", "received_in_window", "received_bytes_in_window", "throttled_ms", "fetches"), 2
    ),
    "fetch_ms": 4.0,
    "latency": "",
}


def test_every_count_of_every_process_is_added_up() -> None:
    """Those whose type had been narrowed to a count within bounds were left out, which no test without brokers saw."""
    added: Any = _load_result([SENT] * 3, [RECEIVED] * 3, warmup_s=1.0, steady=True, window_s=2.0, woken_ms=None)
    for side, given in ((added.sent, SENT), (added.received, RECEIVED)):
        counts = {one.name: getattr(side, one.name) for one in fields(side)}
        whole = {name: value for name, value in counts.items() if isinstance(value, int)}
        assert set(whole) == {name for name, value in given.items() if isinstance(value, int)} - {"clients", "fetches"}
        assert set(whole.values()) == {6}
    assert added.received.fetch_ms == 2.0
    assert added.sent.acked_by_partition == [3, 3]
    assert added.sent.markers_by_partition == [6, 0]
    assert added.sent.latency_by_partition == [0, 3, 3]
    assert added.sent.latency_by_topic == [3, 3]
    assert added.cpu_cores == 3.0


def test_each_group_has_counts_of_its_own() -> None:
    """Three groups of two processes each; those of a group follow one another."""
    processes = [{**RECEIVED, "received": n, "received_in_window": 10 * n} for n in range(1, 7)]
    added = _load_result([], processes, warmup_s=1.0, steady=True, window_s=2.0, woken_ms=None, groups=3).received
    assert added is not None
    assert added.by_group == [(3, 30), (7, 70), (11, 110)]
    assert (added.received, added.received_in_window) == (21, 210)


def test_a_consumer_that_left_before_the_window_used_no_cpu_in_it() -> None:
    """Over load hosts the result of a member that left its group ended the run in a traceback."""
    clock = HostClock("host-1", ahead_s=0.0, bound_s=0.0, used_s=0.0, off_by_s=0.0)
    left = {name: value for name, value in RECEIVED.items() if not name.endswith(("_cores", "_mib"))}
    results = {"consumer-1": RECEIVED, "consumer-2": left}
    (report,) = host_reports(dict.fromkeys(results, clock), dict.fromkeys(results, 0.0), results, {}, window_s=1.0)
    assert (report.processes, report.done_in_window) == (2, 4)
    assert (report.cpu_cores, report.busiest_thread_cores) == (0.5, 0.4)
