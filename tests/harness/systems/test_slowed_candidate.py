"""The plugin that slows the candidate of benchmarks.reference_quality: in its turns alone, and never afterwards."""

import json
import subprocess
import sys

TURNS = """
import json
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.host.toxiproxy import ToxiproxyApi
found, delay = [], []
ToxiproxyApi._ask = lambda api, path, body, method="POST": delay.append(body.get("attributes", {}).get("latency"))

def turns(driver, specs, order, at, observer):
    for _ in order.replace(" ", ""):
        observer.edge(0.0)
        found.append(delay[-1])
        observer.edge(0.0)
    return {}, {}

LibrdkafkaDriver.take_turns = turns
import benchmarks.slowed_candidate
from perfgate.model.load import Observer
ToxiproxyApi("nowhere", 1).add_proxy("broker-1", listen="a:1", upstream="b:1", added_rtt_ms=1)
edges = []
observer = Observer(edge=edges.append, check=None, progress=None, written=None)
LibrdkafkaDriver().take_turns({}, "ABBA BAAB", None, observer)
print(json.dumps([found, delay[-1], len(edges)]))
"""


def test_the_link_is_longer_in_the_candidates_turns_alone() -> None:
    told = {"SLOWED": "link", "LINK_MS": "8", "FARTHER_MS": "9"}
    ran = subprocess.run([sys.executable, "-c", TURNS], env=told, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [[9, 8, 8, 9, 8, 9, 9, 8], 8, 16]
