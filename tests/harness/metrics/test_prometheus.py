"""What is read from a Prometheus: pure parts, and a real HTTP server that answers as one does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.metrics.health import increase
from perfgate.metrics.prometheus import Prometheus, _duration_s
from perfgate.metrics.prometheus_sampler import PrometheusSampler, inside
from perfgate.metrics.prometheus_source import PrometheusSource
from perfgate.model.errors import ConfigurationError

GROWTH = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)


def counter(steps: list[float], start: float = 0.0) -> list[tuple[float, float]]:
    total, values = start, [(0.0, start)]
    for at, step in enumerate(steps, start=1):
        total += step
        values.append((float(at), total))
    return values


@given(GROWTH, st.floats(0, 1e9))
def test_an_increase_is_what_was_added_wherever_the_counter_stood(steps: list[float], start: float) -> None:
    assert increase(counter(steps, start)) == pytest.approx(sum(steps), rel=1e-6, abs=1e-3)


@given(GROWTH, GROWTH)
def test_a_counter_that_began_again_counts_from_zero(before: list[float], after: list[float]) -> None:
    first = counter(before, start=sum(after) + 1)
    again = [(len(first) + at, value) for at, value in counter(after)]
    assert increase([*first, *again]) == pytest.approx(sum(before) + sum(after), rel=1e-6, abs=1e-3)


@given(GROWTH, st.integers(0, 30))
def test_increases_of_two_halves_add_up(steps: list[float], cut: int) -> None:
    values = counter(steps)
    cut = min(cut, len(values) - 1)
    assert increase(values[: cut + 1]) + increase(values[cut:]) == pytest.approx(increase(values), rel=1e-6, abs=1e-3)


def test_only_what_lies_inside_the_window_counts() -> None:
    assert inside([(1, 0), (2, 0), (3, 0), (4, 0)], 2, 3) == [(2, 0), (3, 0)]


@pytest.mark.parametrize(("text", "seconds"), [("15s", 15), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("x", 0)])
def test_durations(text: str, seconds: float) -> None:
    assert _duration_s(text) == seconds


@pytest.mark.parametrize(("interval_s", "asked"), [(1.0, 0), (0.2, 1), (0.0, 1)])
def test_no_scrapes_are_waited_for_that_a_window_has_no_room_for(interval_s: float, asked: int) -> None:
    """Each side of each burst of turns waited 3 s for four scrapes that are 1 s apart, in a window of 1 s."""
    times, queries = iter([10.0, 11.0]), list[str]()

    def instant(query: str, _at: float) -> list[object]:
        queries.append(query)
        raise ConfigurationError("refused")

    source = PrometheusSource(url="http://x", preset="jmx-exporter")
    prometheus: Any = SimpleNamespace(now=lambda: next(times), instant=instant, source=source)
    sampler = PrometheusSampler(prometheus, {1: "kafka-1:9092"}, interval_s)
    sampler.edge()
    sampler.edge()
    assert sampler.metrics(1000, [-1]) == {}
    assert len(queries) == asked
    assert asked or sampler.unavailable == "a window of 1.0 s has no room for 4 scrapes of Prometheus"


class Answers(BaseHTTPRequestHandler):
    """Answers `time()` with a clock that is two minutes ahead; asks for a token when there is one."""

    token = ""
    ahead_s = 120.0

    def do_GET(self) -> None:
        """Answer a query."""
        import time

        if self.token and self.headers.get("Authorization") != f"Bearer {self.token}":
            self._reply(401, {"status": "error"})
            return
        query = parse_qs(urlparse(self.path).query).get("query", [""])[0]
        if query == "time()":
            now = time.time() + self.ahead_s
            self._reply(200, {"data": {"resultType": "scalar", "result": [now, str(now)]}})
        else:
            self._reply(400, {"status": "error", "error": "parse error"})

    def _reply(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_the_clocks_offset_is_measured(server: str) -> None:
    assert Prometheus(PrometheusSource(url=server)).offset_s == pytest.approx(120, abs=2)


def test_a_refused_query_is_one_message_with_the_query(server: str) -> None:
    prometheus = Prometheus(PrometheusSource(url=server))
    with pytest.raises(ConfigurationError, match=r"refused the query 'sum\('"):
        prometheus.instant("sum(")


def test_a_wrong_token_names_the_remedy_and_not_the_token(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answers, "token", "right-token")
    Prometheus(PrometheusSource(url=server, token="right-token"))
    with pytest.raises(ConfigurationError, match="username, password, token") as caught:
        Prometheus(PrometheusSource(url=server, token="wrong-token"))
    assert "wrong-token" not in str(caught.value)


def test_no_server_is_one_message() -> None:
    with pytest.raises(ConfigurationError, match="no answer"):
        Prometheus(PrometheusSource(url="http://127.0.0.1:9"))
