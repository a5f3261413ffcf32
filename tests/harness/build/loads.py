"""Results of a driver's load."""

from perfgate.model import HostReport
from perfgate.model.load import LoadResult, Received, Sent
from tests.harness.build.rounds import histogram


def sent(**changes: object) -> Sent:
    """Return what the producers of a sound capped round of 2 s at 1,000 records/s say, with `changes`."""
    values: dict[str, object] = {
        "attempted_in_window": 2000,
        "acked_in_window": 2000,
        "acked_bytes_in_window": 2000 * 1024,
        "pushback_s": 0.0,
        "pushback_in_window_s": 0.0,
        "attempted": 3000,
        "acked": 3000,
        "failed": {},
        "errors": {},
        "unresolved": 0,
        "unsent": 0,
        "latency": histogram([0.001]),
        **changes,
    }
    return Sent(**values)  # type: ignore[arg-type]  # the tests name the fields they change


def received(**changes: object) -> Received:
    """Return what the consumers of a sound round of 2 s at 1,000 records/s say, with `changes`."""
    values: dict[str, object] = {
        "received_in_window": 2000,
        "received_bytes_in_window": 2000 * 1024,
        "read": 3000,
        "received": 3000,
        "foreign": 0,
        "corrupt": 0,
        "duplicated": 0,
        "reordered": 0,
        "redelivered": 0,
        "negative_latencies": 0,
        "errors": {},
        "failed": {},
        "fetch_ms": None,
        **changes,
    }
    return Received(**values)  # type: ignore[arg-type]  # the tests name the fields they change


def load_result(
    *,
    sent: Sent | None = None,
    received: Received | None = None,
    busiest_thread_cores: float = 0.05,
    wake_delay_p99_ms: float | None = None,
    hosts: tuple[HostReport, ...] = (),
    window_late_s: float = 0.0,
) -> LoadResult:
    """Return the result of a round of 2 s."""
    return LoadResult(
        warmup_s=1.0,
        steady=True,
        window_s=2.0,
        cpu_cores=0.1,
        busiest_thread_cores=busiest_thread_cores,
        rss_mib=80.0,
        sent=sent,
        received=received,
        wake_delay_p99_ms=wake_delay_p99_ms,
        hosts=hosts,
        window_late_s=window_late_s,
    )
