"""docs/grafana: the dashboard's queries, asked of a Prometheus that has scraped what a run exports."""

import http.server
import json
import os
import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_api_client import PrometheusConnect
from requests import ConnectionError as NoConnection

from perfgate.host.guard import Guard
from perfgate.host.ports import HOST, free_ports
from perfgate.host.waiting import NotYet, poll_until
from perfgate.report.exports import metrics_text
from perfgate.report.results import load_run, recorded_measurements
from perfgate.systems.kafka.managed.monitoring import prometheus_server
from tests.harness.run_gate import BEGUN_BOUND_S, ROOT

DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "kafka-perf-gate.json").read_text())
QUERIES = {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
FORMATS = {
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "text": "text/plain; version=0.0.4; charset=utf-8",
}

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None and not os.environ.get("PROMETHEUS_REQUIRED"),
    reason="no `prometheus` on the PATH",
)


def exported() -> str:
    run = load_run(ROOT / "tests/harness/data/run.json")
    run["scenarios"][0]["judgements"].append({"metric": "latency_ms.p99", "limit": 5.0, "baseline": 4.0})
    return metrics_text(run, recorded_measurements(run))


@pytest.fixture(scope="module")
def served() -> Iterator[int]:
    """Serve the recorded run's metrics.prom on loopback, in both formats that it is written in; return the port."""
    body = exported().encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", FORMATS[self.path.strip("/")])
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def prometheus(served: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusConnect]:
    folder = tmp_path_factory.mktemp("prometheus")
    config, (port,) = folder / "prometheus.yml", free_ports(1)
    jobs = "".join(
        f"  - job_name: {name}\n    metrics_path: /{name}\n    static_configs: [{{targets: ['{HOST}:{served}']}}]\n"
        for name in FORMATS
    )
    config.write_text(f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}")
    arguments = [
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={HOST}:{port}",
    ]
    with Guard() as guard:
        guard.spawn([prometheus_server(), *arguments], log=folder / "prometheus.log")
        asked = PrometheusConnect(url=f"http://{HOST}:{port}", disable_ssl=True)

        def scraped() -> None:
            try:
                up = {one["metric"]["job"]: one["value"][1] for one in asked.custom_query("up")}
            except NoConnection as error:
                raise NotYet(str(error)) from error
            if up != dict.fromkeys(FORMATS, "1"):
                raise NotYet(f"up is {up}")

        poll_until("the file was not scraped in both formats", scraped, within_s=BEGUN_BOUND_S, every_s=0.5)
        yield asked


@pytest.mark.parametrize("title", QUERIES)
def test_every_query_returns_series(prometheus: PrometheusConnect, title: str) -> None:
    query = QUERIES[title]
    for variable in DASHBOARD["templating"]["list"]:
        query = query.replace(f"${variable['name']}", str(variable.get("allValue")))
    assert "$" not in query
    assert prometheus.custom_query(query), query


@pytest.mark.parametrize(
    ("name", "label"), [("scenario", "scenario"), ("family", "family"), ("tier", "tier"), ("system", "system")]
)
def test_the_variables_have_values(prometheus: PrometheusConnect, name: str, label: str) -> None:
    (variable,) = (one for one in DASHBOARD["templating"]["list"] if one["name"] == name)
    assert variable["query"]["query"].endswith(f", {label})")
    series = variable["query"]["query"].removeprefix("label_values(").rpartition(", ")[0].replace("$family", ".+")
    assert {one["metric"][label] for one in prometheus.custom_query(series)}


def test_a_verdict_is_told_as_green_undecided_or_red(prometheus: PrometheusConnect) -> None:
    query = QUERIES["Verdicts of the scenarios A"]
    for name in ("scenario", "family", "tier", "system"):
        query = query.replace(f"${name}", ".+")
    assert {one["value"][1] for one in prometheus.custom_query(query)} == {"0"}, "all of the recorded run passed"


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
