"""The plugin that slows runs of the gate for benchmarks.gate_quality: it slowed the link that was set first alone."""

import json
import subprocess
import sys

import pytest

from benchmarks.gate_quality import ALL, slowed_enough

SETS = """
import json
import benchmarks.longer_link
from perfgate.host.toxiproxy import ToxiproxyApi
found = []
ToxiproxyApi._ask = lambda api, path, body, method="POST": found.append(body.get("attributes", {}).get("latency"))
api = ToxiproxyApi("nowhere", 1)
api.add_proxy("broker-1", listen="a:1", upstream="b:1", added_rtt_ms=1)
for added_rtt_ms in (2, 1, 0):
    api.set_added_rtt("broker-1", added_rtt_ms)
print(json.dumps(found))
"""


def test_the_link_stays_longer_after_a_scenario_with_another_one() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SETS], env={"LINK_MS": "11"}, capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == [None, 11, 2, 11, 0]


@pytest.mark.parametrize(("rtt_ms", "slowed"), [(1.4, False), (10.9, False), (11.3, True)])
def test_a_run_whose_link_was_not_that_long_is_no_run_of_the_series(rtt_ms: float, slowed: bool) -> None:
    run = {"scenarios": [{"name": "cross-az", "link": {"rtt_ms": rtt_ms}}]}
    (longest,) = (one for one in ALL if one.name == "link-11-ms")
    (plain,) = (one for one in ALL if one.name == "unchanged")
    assert slowed_enough(longest, run) is slowed
    assert slowed_enough(plain, run)
    assert not slowed_enough(longest, {"scenarios": []})
