"""Small processes that speak the protocol of generator processes, and the round they are started for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

from perfgate.load.processes import Generators
from perfgate.load.transport import END_S, Heard, LocalTransport
from perfgate.model import Load
from perfgate.model.load import LoadSpec, Observer
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build.rounds import scenario

TALK = """
import json, sys, time
def say(**message): print(json.dumps(message), flush=True)
def hear(name):
    while name not in (message := json.loads(sys.stdin.readline())): pass
    return message[name]
spec = json.loads(sys.stdin.readline())
say(event="ready")
start = hear("start")
for i in range(40):
    say(event="progress", at=start + i / 20, attempted=10 * i, done=10 * i, failed=0, last_error="")
opens, closes = hear("window")
"""
RESULT = """
say(event="result", attempted_in_window=5, acked_in_window=5, acked_bytes_in_window=500, pushback_s=0,
    pushback_in_window_s=0, stalled_in_window_s=0, attempted=10, acked=10, acked_by_partition=[10],
    markers_by_partition=[0], latency_by_partition=[], latency_by_topic=[],
    committing_in_window_s=0, due_in_window=5, timed_out_in_window=0,
    failed={}, errors={}, unresolved=0, unsent=0, withdrawn=0, throttled_ms=0, clients=1,
    cpu_cores=0.1, busiest_thread_cores=0.1, rss_mib=50)
"""
SPEC = LoadSpec(
    scenario=replace(
        scenario(), load=Load(kind="paced", rate=10), producer=(("delivery.timeout.ms", "1000"),), record_bytes=100
    ),
    bootstrap="",
    security=(),
    topic="t",
    run_id="run",
    seed=1,
    window_s=0.5,
    warmup_max_s=1,
)


def observer(edges: list[int]) -> Observer:
    return Observer(
        edge=lambda _at: edges.append(1), check=lambda: None, progress=lambda phase, last: None, written=lambda: 0
    )


def driver(script: str, end_s: float = END_S) -> LibrdkafkaDriver:
    """Return the driver with this script as its generator process; `end_s`: of the transport."""
    return LibrdkafkaDriver(LocalTransport(("-c", script), end_s))


@contextmanager
def processes(*names: str, **followed: Any) -> Iterator[tuple[Generators, Heard]]:
    """Generator processes of these names that are none, and what is called with what each of them says."""
    transport = Mock(lead_s=0.0)
    transport.start.return_value = {name: Mock() for name in names}
    with Generators({name: {} for name in names}, transport, **followed) as generators:
        yield generators, transport.start.call_args.args[1]
