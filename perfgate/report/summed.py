"""Of a scenario's rounds together: where records went, what consumers were given, the extremes of the generator."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.model import Reading, Round
from perfgate.model.structured import shallow
from perfgate.report.entries import AccountingEntry

LARGEST = ("cpu_cores", "busiest_thread_cores", "rss_mib", "schedule_delay_p99_ms", "wake_delay_p99_ms")
"""What is told of the generator by its largest value over the rounds."""


def summed_accounting(rounds: Sequence[Round]) -> AccountingEntry:
    """Return where the records of all rounds went."""
    failed: dict[str, int] = {}
    for r in rounds:
        for code, count in r.accounting.failed.items():
            failed[code] = failed.get(code, 0) + count
    totals = {
        name: sum(getattr(r.accounting, name) for r in rounds)
        for name in ("attempted", "acked", "unresolved", "withdrawn", "markers", "offset_delta")
    }
    return AccountingEntry(**totals, failed=sum(failed.values()), failed_by_code=failed)


def summed_reading(rounds: Sequence[Round]) -> Reading | None:
    """Return what consumers were given over all rounds; None without any."""
    readings = [shallow(r.reading) for r in rounds if r.reading]
    return Reading(**{name: sum(one[name] for one in readings) for name in readings[0]}) if readings else None


def extremes(rounds: Sequence[Round]) -> dict[str, float | None]:
    """Return what the generator says of itself, at its worst; None where no round says it."""
    reports = [shallow(r.generator) for r in rounds if r.generator]
    found: dict[str, float | None] = {}
    for name, extreme in (("pushback_share", min), *((name, max) for name in LARGEST)):
        values = [report[name] for report in reports if report[name] is not None]
        found[f"{name}_{extreme.__name__}"] = extreme(values, default=None)
    return found
