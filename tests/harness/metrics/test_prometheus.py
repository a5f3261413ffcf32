"""Figures that are read from a Prometheus: pure parts, and a real HTTP server that answers as one does."""

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import Mock
from urllib.parse import parse_qs, urlparse

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from perfgate.fixtures.wiring_kafka import exporters_usage
from perfgate.metrics.health import EVIDENCE, increase
from perfgate.metrics.prometheus import Prometheus, Series, moved_by
from perfgate.metrics.prometheus_sampler import PrometheusSampler, inside
from perfgate.metrics.prometheus_source import PrometheusSource, source_of
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.secret import Secret
from perfgate.systems.kafka.managed.own_cluster import OwnCluster
from tests.harness.build.clock import Clock
from tests.harness.build.prometheus import KAFKA, NODE, SAME_CLOCK, Scraped, jvm, process, sampled, scraping

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


@pytest.mark.parametrize(("interval_s", "asked"), [(1.0, 0), (0.2, 1), (0.0, 1)])
def test_no_scrapes_are_waited_for_that_a_window_has_no_room_for(interval_s: float, asked: int) -> None:
    """Each side of each burst of turns waited 3 s for four scrapes that are 1 s apart, in a window of 1 s."""
    queries = list[str]()

    def instant(query: str, _at: float) -> list[object]:
        queries.append(query)
        raise ConfigurationError("refused")

    source = PrometheusSource(url="http://x", preset="jmx-exporter")
    prometheus: Any = SimpleNamespace(look=lambda: SAME_CLOCK, instant=instant, source=source, exporter="")
    sampler = PrometheusSampler(prometheus, {1: "kafka-1:9092"}, interval_s)
    sampler.edge(10.0)
    sampler.edge(11.0)
    assert sampler.metrics(1000, [-1]) == {}
    assert len(queries) == asked
    assert asked or sampler.unavailable == "a window of 1.0 s has no room for 4 scrapes of Prometheus"


class Answers(BaseHTTPRequestHandler):
    """Answers `time()` with a clock that is two minutes ahead, others by `scraped`; asks for a token if it has one."""

    token = ""
    ahead_s = 120.0
    scraped: Scraped | None = None
    targets: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        """Answer a query."""
        import time

        if self.token and self.headers.get("Authorization") != f"Bearer {self.token}":
            self._reply(401, {"status": "error"})
            return
        asked = {name: values[0] for name, values in parse_qs(urlparse(self.path).query).items()}
        query = asked.get("query", "")
        if urlparse(self.path).path.endswith("/targets"):
            self._reply(200, {"data": {"activeTargets": self.targets}})
        elif query == "time()":
            now = time.time() + self.ahead_s
            self._reply(200, {"data": {"resultType": "scalar", "result": [now, str(now)]}})
        elif self.scraped:
            found = [
                {"metric": one.labels, "values": [[at, str(value)] for at, value in one.values]}
                for one in self.scraped.instant(query, float(asked.get("time", time.time())))
            ]
            self._reply(200, {"data": {"resultType": "matrix", "result": found}})
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
def answers() -> type[Answers]:
    """Answers of this test alone."""

    class OfThisTest(Answers):
        """Has what this test sets."""

    return OfThisTest


@contextmanager
def serving(answers: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture
def server(answers: type[Answers]) -> Iterator[str]:
    with serving(answers) as url:
        yield url


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server with a certificate of an authority that states no key usage, as many of companies' own do."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    (ca := tmp_path / "ca.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (both := tmp_path / "both.pem").write_bytes(private + ca.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as http:
        http.socket = context.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"https://localhost:{http.server_port}", ca
        http.shutdown()
        thread.join()


def test_an_authority_that_other_clients_take_is_taken(secured: tuple[str, Path]) -> None:
    """From Python 3.13 on it was refused: CA cert does not include key usage extension."""
    url, ca = secured
    assert ahead_of_wall_s(Prometheus(PrometheusSource(url=url, ca=str(ca)))) == pytest.approx(Answers.ahead_s, abs=1.0)
    with pytest.raises(ConfigurationError, match="certificate"):
        Prometheus(PrometheusSource(url=url))


def ahead_of_wall_s(prometheus: Prometheus) -> float:
    import time

    return prometheus.first.offset + time.monotonic() - time.time()


def test_the_clocks_offset_is_measured(server: str) -> None:
    assert ahead_of_wall_s(Prometheus(PrometheusSource(url=server))) == pytest.approx(120, abs=2)


def test_a_refused_query_is_one_message_with_the_query(server: str) -> None:
    prometheus = Prometheus(PrometheusSource(url=server))
    with pytest.raises(ConfigurationError, match=r"refused the query 'sum\('"):
        prometheus.instant("sum(")


def test_a_wrong_token_names_the_remedy_and_not_the_token(server: str, answers: type[Answers]) -> None:
    answers.token = "right-token"
    Prometheus(PrometheusSource(url=server, token="right-token"))
    with pytest.raises(ConfigurationError, match="username, password, token") as caught:
        Prometheus(PrometheusSource(url=server, token="wrong-token"))
    assert "wrong-token" not in str(caught.value)


def test_no_http_proxy_stands_before_this_machine(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's own Prometheus was asked for by the proxy, and the run was refused about a url that nobody gave."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    assert ahead_of_wall_s(Prometheus(PrometheusSource(url=server))) == pytest.approx(120, abs=2)


@pytest.mark.parametrize(
    "given", [{"token": "right-token"}, {"headers": {"authorization": "Bearer right-token"}}], ids=["token", "header"]
)
def test_a_token_is_sent_whatever_the_netrc_holds(
    server: str, answers: type[Answers], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: Any
) -> None:
    """Of another machine's Prometheus, which a proxy leads to."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 192.0.2.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name, value in (("http_proxy", server), ("no_proxy", ""), ("NO_PROXY", "")):
        monkeypatch.setenv(name, value)
    answers.token = "right-token"
    elsewhere = PrometheusSource(url="http://192.0.2.1:9090", **given)
    assert ahead_of_wall_s(Prometheus(elsewhere)) == pytest.approx(120, abs=2)


@pytest.mark.usefixtures("no_other_secrets")
def test_a_redirect_takes_no_secret_to_another_server() -> None:
    """Only Authorization stayed behind: a key in a header of its own went wherever an answer named."""
    received: list[tuple[str | None, ...]] = []
    names = ("Authorization", "X-Api-Key", "X-Scope-OrgID")

    class Receives(Answers):
        """Notes what it is sent."""

        def do_GET(self) -> None:
            received.append(tuple(self.headers.get(name) for name in names))
            super().do_GET()

    class Redirects(Receives):
        """Names another server in its answer."""

        def do_GET(self) -> None:
            received.append(tuple(self.headers.get(name) for name in names))
            self.send_response(307)
            self.send_header("Location", elsewhere + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Receives) as elsewhere, serving(Redirects) as first:
        headers = {"X-Api-Key": Secret("right-key"), "X-Scope-OrgID": "kafka"}
        Prometheus(PrometheusSource(url=first, token="right-token", headers=headers))
    assert received[:2] == [("Bearer right-token", "right-key", "kafka"), (None, None, "kafka")]


def test_no_server_is_one_message() -> None:
    with pytest.raises(ConfigurationError, match="no answer"):
        Prometheus(PrometheusSource(url="http://127.0.0.1:9"))


def test_a_prometheus_that_refuses_later_leaves_a_round_without_cpu(server: str, answers: type[Answers]) -> None:
    """One request that failed in a night ended it as wrong usage: each round asked for the time anew."""
    cluster = Mock(spec=OwnCluster, prometheus_url=server)
    cluster.agents.return_value, cluster.broker_hosts.return_value = {"127.0.0.1:7071": 1}, {1: "127.0.0.1"}
    known: dict[str, Prometheus] = {}
    exporters_usage(cluster, 0.0, known)
    answers.token = "nobody has it"
    sampler = exporters_usage(cluster, 0.0, known)
    sampler.edge()
    sampler.edge()
    assert sampler.metrics(1000, [-1]) == {}
    assert "it refused this client" in sampler.unavailable
    with pytest.raises(TargetError, match="it refused this client"):
        exporters_usage(cluster, 0.0, {})


def test_a_process_beside_the_broker_is_none_of_it() -> None:
    """node_exporter tells of its own process under the same name: its few millicores were the broker's."""
    alone, _ = sampled(Scraped(*KAFKA))
    beside, _ = sampled(Scraped(*KAFKA, NODE))
    assert alone == beside
    assert alone["broker_cpu_cores.sum"] == pytest.approx(0.5)
    found, why = sampled(Scraped(NODE))
    assert not found
    assert "has no series for" in why


def test_of_two_jvms_of_a_host_a_person_has_to_say_which_is_the_broker() -> None:
    connect = (process("kafka-1:7072", "connect"), jvm("kafka-1:7072", "connect"))
    found, why = sampled(Scraped(*KAFKA, *connect))
    assert not found
    assert "broker 1 is told of several times in Prometheus (instance 'kafka-1:7071', 'kafka-1:7072'; job " in why
    assert "by [prometheus] match or brokers" in why
    either: tuple[dict[str, Any], ...] = ({"match": 'job="kafka"'}, {"brokers": {"kafka-1:7071": 1}})
    for stated in either:
        assert sampled(Scraped(*KAFKA, *connect, **stated))[0]["broker_cpu_cores.sum"] == pytest.approx(0.5)


def test_strangers_under_one_exporter_s_name_do_not_hide_the_next_exporter() -> None:
    """A Prometheus that scrapes itself has that counter too; the brokers' cAdvisor was never asked."""
    other = (process("prometheus:9090", "prometheus"), jvm("prometheus:9090", "prometheus"))
    container = {"__name__": "container_cpu_usage_seconds_total", "name": "kafka-1", "image": "kafka", "container": "k"}
    found, _ = sampled(Scraped(*other, {**container, "pod": "kafka-1"}))
    assert found["broker_cpu_cores.sum"] == pytest.approx(0.5)


CONTAINER = {
    "__name__": "container_cpu_usage_seconds_total",
    "pod": "kafka-1",
    "namespace": "staging",
    "image": "kafka",
    "container": "kafka",
    "id": "/a",
}
SIDECAR = {"container": "agent", "image": "agent", "id": "/b"}
CORE = {"__name__": "node_cpu_seconds_total", "instance": "kafka-1:9100", "mode": "user", "cpu": "0"}


@pytest.mark.parametrize(
    ("source", "one", "part", "other", "apart"),
    [
        ("cadvisor", CONTAINER, SIDECAR, {"namespace": "prod"}, "namespace 'prod', 'staging'"),
        ("cadvisor", CONTAINER, SIDECAR, {"replica": "b"}, "replica '', 'b'"),
        ("node-exporter", CORE, {"cpu": "1"}, {"job": "again"}, "job '', 'again'"),
    ],
)
def test_what_has_a_broker_s_name_elsewhere_is_none_of_its_cpu(
    source: str, one: dict[str, str], part: dict[str, str], other: dict[str, str], apart: str
) -> None:
    """Pods of its name in all namespaces were added up to the broker, and what two replicas had scraped was."""
    found, why = sampled(Scraped(one, {**one, **part}, preset=source))
    assert not why
    assert found["broker_cpu_cores.sum"] == pytest.approx(1.0), "its containers and cores are"
    found, why = sampled(Scraped(one, {**one, **other}, preset=source))
    assert not found
    assert f"broker 1 is told of several times in Prometheus ({apart}): select" in why


SHRINKS = "kafka_server_replicamanager_isrshrinkspersec_total"


class Averaged(Scraped):
    """What rate(...[8s]) tells of brokers that used a tenth of a core before the window, and two cores in it."""

    opens = 100.0

    def instant(self, query: str, at: float) -> list[Series]:
        if not query.startswith("("):
            return []
        self._now = at
        used = {t: 2.0 if t > self.opens else 0.1 for t in range(int(at) - 60, int(at) + 1)}
        values = [(float(t), sum(used[t - back] for back in range(8)) / 8) for t in list(used)[8:]]
        return [Series(labels={"instance": "kafka-1:7071"}, values=values)]


def test_what_a_query_looks_back_on_is_no_part_of_the_window() -> None:
    """Its first points tell of the time before the window: 2.0 cores were told as 1.7."""
    prometheus: Any = Averaged(query="sum by (instance)(rate(process_cpu_seconds_total[8s]))")
    sampler = PrometheusSampler(prometheus, {1: "kafka-1:9092"}, 1.0)
    sampler._edges = [100.0, 125.0]
    assert sampler.metrics(1000, [0])["broker_cpu_cores.sum"] == pytest.approx(2.0)
    assert sampler.over_time()["1"][0][0] == pytest.approx(8.0)
    sampler._edges = [100.0, 110.0]
    assert not sampler.metrics(1000, [0])
    assert sampler.unavailable.endswith("no room for 4 scrapes of Prometheus after the 8 s that its query looks back")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("rate(a[5m] @ 1700000000)", "@ asks for one moment"),
        ("rate(a[5m] offset -5m)", "is no range or offset back in time"),
        ("rate(a[$__rate_interval])", "query: $__rate_interval: variables of a dashboard"),
        ('sum(rate(a{job="${job}"}[1m]))', "query: ${job}: variables of a dashboard"),
        ("sum(rate(a[[[range]]]))", "query: [[range]]: variables of a dashboard"),
        ('rate(a{job="$job", c=~"$job|$c"}[$__rate_interval])', "query: $job, $c, $__rate_interval: variables"),
        ("rate(a[5m] offset (5m + 1m))", "is no range or offset"),
    ],
)
def test_a_query_that_tells_of_another_time_than_the_window_s_is_refused(query: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        source_of({"url": "http://p", "query": query})


def test_a_step_of_this_machines_wall_clock_moves_no_window(
    server: str, answers: type[Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    prometheus = Prometheus(PrometheusSource(url=server))
    wall = time.time
    answers.ahead_s -= 60  # the server's own clock goes on
    monkeypatch.setattr(time, "time", lambda: wall() + 60)
    assert moved_by(prometheus.first, prometheus.look()) == 0.0


def test_a_rate_over_several_windows_is_their_mean_and_a_count_their_sum() -> None:
    """Each turn of a burst was added: a side with two had twice the network traffic that there was."""
    evidence = {one.metric: one for one in EVIDENCE}
    windows = [(2.0, [((0.0, 0.0), (2.0, 1.0))]), (6.0, [((10.0, 1.0), (16.0, 7.0))])]
    assert evidence["gc_s_per_s"].over(windows) == pytest.approx(7 / 8)
    assert evidence["isr_shrinks"].over(windows) == 7


def test_health_is_of_these_brokers_alone() -> None:
    """A shrink on another cluster that the same Prometheus scrapes made the round INVALID."""
    other = {"__name__": SHRINKS, "instance": "staging-1:7071", "job": "staging"}
    assert "isr_shrinks" not in sampled(Scraped(*KAFKA, other))[0]
    assert "isr_shrinks" in sampled(Scraped(*KAFKA, {**other, "instance": "kafka-1:7071"}))[0]
    controller = {**other, "instance": "controller-1:7071", "job": "kafka"}
    assert "isr_shrinks" in sampled(Scraped(*KAFKA, controller, match='job="kafka"'))[0], "what a person selected"
    assert "isr_shrinks" not in sampled(Scraped(*KAFKA, other, match='job="kafka"'))[0]


def test_brokers_that_are_named_without_a_port_are_no_licence_for_all_series() -> None:
    """Those of this machine are known by its address alone: everything without a colon was theirs."""
    other = {"__name__": SHRINKS, "instance": "staging-1:7071", "job": "staging"}
    prometheus: Any = Scraped(*KAFKA, other)
    assert not PrometheusSampler(prometheus, {1: "kafka-1"})._evidence([SHRINKS], 10, 20.0)
    mine: Any = Scraped(*KAFKA, {**other, "instance": "kafka-1:7071"})
    assert PrometheusSampler(mine, {1: "kafka-1"})._evidence([SHRINKS], 10, 20.0)


def test_traffic_of_single_topics_is_a_part_of_all_and_not_added_to_it() -> None:
    name = next(name for one in EVIDENCE if one.metric == "network_in_mib_per_s" for name in one.names)
    whole = {"__name__": name, "instance": "kafka-1:7071"}
    alone = sampled(Scraped(*KAFKA, whole))[0]["network_in_mib_per_s"]
    assert sampled(Scraped(*KAFKA, whole, {**whole, "topic": "orders"}))[0]["network_in_mib_per_s"] == alone
    assert sampled(Scraped(*KAFKA, {**whole, "topic": "orders"}))[0]["network_in_mib_per_s"] == alone


def test_a_prometheus_that_refuses_what_health_asks_tells_the_cpu_all_the_same() -> None:
    """It ended the whole run as wrong usage."""
    found, _ = sampled(Scraped(*KAFKA, refuses="isrshrinks"))
    assert found["broker_cpu_cores.sum"] == pytest.approx(0.5)


def settled(prometheus: Any, brokers: dict[int, str]) -> str:
    return PrometheusSampler(prometheus, brokers).settle()


def test_the_exporter_that_tells_of_the_brokers_at_the_start_is_the_run_s() -> None:
    """Each window chose anew: where the JMX exporter fell silent the whole host's CPU was the broker's."""
    node = {"__name__": "node_cpu_seconds_total", "instance": "kafka-1:9100", "mode": "user", "cpu": "0"}
    prometheus = scraping(*KAFKA, node)
    words = settled(prometheus, {1: "kafka-1:9092"})
    assert words == "brokers' CPU: process_cpu_seconds_total (jmx-exporter), that of the broker's process"
    prometheus._series = (node,)
    found, why = sampled(prometheus)
    assert not found
    assert "has no series for process_cpu_seconds_total" in why
    assert settled(scraping(node), {1: "kafka-1:9092"}) == (
        "brokers' CPU: node_cpu_seconds_total (node-exporter), that of the whole host that the broker is on"
    )


@pytest.mark.parametrize(
    ("series", "stated", "words"),
    [
        (KAFKA, {"match": 'job="kafak"'}, "has no series for"),
        (KAFKA, {"preset": "strimzi"}, "has no series for"),
        (KAFKA, {}, "no series for broker 2; check [prometheus] match and brokers"),
        ((), {}, "has no series for"),
    ],
)
def test_a_prometheus_that_can_never_answer_is_refused_at_the_start(
    series: Any, stated: dict[str, str], words: str, clock: Clock
) -> None:
    """It was found after a round, and every scenario was INCONCLUSIVE in the end."""
    with pytest.raises(ConfigurationError, match=re.escape(words)) as caught:
        settled(scraping(*series, **stated), {1: "kafka-1:9092", 2: "kafka-2:9092"})
    assert str(caught.value).startswith("[prometheus] cannot tell the brokers' CPU: ")


@pytest.mark.parametrize("label", ["kubernetes_pod_name", "pod"])
def test_a_pod_is_the_broker_whose_host_name_it_begins(label: str) -> None:
    pods = [
        {"__name__": "process_cpu_seconds_total", "strimzi_io_kind": "Kafka", label: f"my-kafka-{number}"}
        for number in range(2)
    ]
    jvms = [{**pod, "__name__": "jvm_threads_current"} for pod in pods]
    brokers = {n: f"my-kafka-{n}.my-kafka-brokers.kafka.svc:9093" for n in range(2)}
    assert "(strimzi)" in settled(scraping(*pods, *jvms, preset="strimzi"), brokers)


def test_only_the_scrape_intervals_of_what_is_matched_count(server: str, answers: type[Answers]) -> None:
    """A job of 7 min beside the brokers' made rounds of 2,100 s."""
    answers.targets = [
        {"labels": {"job": "kafka", "instance": "kafka-1:7071"}, "scrapeInterval": "15s"},
        {"labels": {"job": "slow", "instance": "else:1"}, "scrapeInterval": "7m"},
    ]
    answers.scraped = Scraped(*KAFKA)
    assert Prometheus(PrometheusSource(url=server, match='job="kafka"')).scrape_interval_s() == 15
    assert Prometheus(PrometheusSource(url=server)).scrape_interval_s() == 420, "nothing says which are the brokers'"
