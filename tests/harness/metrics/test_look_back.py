"""Look-back of queries at the edges of their syntax: brackets that do not match, names like keywords, plain seconds."""

import pytest

from perfgate.metrics.prometheus_source import duration_s, looks_back_s
from perfgate.model.errors import ConfigurationError


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("up", 0.0),
        ("rate(a[5m])", 300.0),
        ("rate(a[5m]))", 300.0),
        (")rate(a[5m])", 300.0),
        ("(rate(a[5m])", 300.0),
        ("rate(a[5m]) + rate(b[1m])", 300.0),
        ("rate(a[1m]) + rate(b[5m])", 300.0),
        ("sum(rate(a[5m])) offset 1m", 360.0),
        ("max_over_time(rate(a[5m])[1h:1m])", 3900.0),
        ("irate(a[5m])", 0.0),
        ("IRATE(a[5m])", 0.0),
        ("idelta(a[5m] offset 30s)", 30.0),
        ("max_over_time(irate(a[5m])[10m:])", 600.0),
        ("rate(a[90])", 90.0),
        ("offset", 0.0),
        ("sum(offset)", 0.0),
        ("a offset 1.5h", 5400.0),
        ('rate(a{job="x[9d]"}[1m])', 60.0),
        ("rate(a[1m]) # [9d] offset 9d", 60.0),
        ("rate(a[1m]) / rate(b[1m] offset 2m)", 180.0),
        ("rate(a[30s]) + max_over_time(b[1m30s:5s])", 90.0),
        ('irate(a{x="y"}[5m])', 0.0),
        ("sum(irate(a[5m])) + rate(b[10s])", 10.0),
        ("irate(a{i=~\"k[0-9]+\", j='[9m]'}[5m])", 0.0),
        ("rate(a[ 5m ]) / rate(b[1w])", 604_800.0),
        ("rate(a[1m] offset 1h)", 3660.0),
        ("rate(a[1m]) OFFSET 1h + rate(b[2m])", 3660.0),
        ("avg_over_time((sum by (i) (rate(a[5m] offset 5m)))[10m:] offset 1m) / rate(b[1w])", 604_800.0),
        ("avg_over_time(sum(rate(a[5m] offset 5m))[10m:1m] offset 1m)", 1260.0),
        ("sum(irate(a[5m] offset 10m))", 600.0),
        ("irate(rate(a[1m])[5m:15s])", 360.0),
        ("(rate(a[1m]) + rate(b[2m]))", 120.0),
        ("", 0.0),
    ],
)
def test_how_far_a_query_looks_back_at_most(query: str, seconds: float) -> None:
    assert looks_back_s(query) == pytest.approx(seconds)


@pytest.mark.parametrize("query", ["a @ 1600000000", "a offset -5m", "a offset (1m)", "rate(a[$range])", "rate(a[x])"])
def test_what_is_of_no_known_time_is_refused(query: str) -> None:
    with pytest.raises(ConfigurationError):
        looks_back_s(query)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("15s", 15.0),
        ("1h", 3600.0),
        ("1w", 604_800.0),
        ("1y", 31_536_000.0),
        ("1d", 86_400.0),
        ("5", 0.0),
        ("x", 0.0),
        ("", 0.0),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds
