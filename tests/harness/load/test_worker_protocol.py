"""The run's side of a generator process, against small processes that behave in ways real ones sometimes do."""

import queue
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load import worker
from perfgate.load.engine import SuiteEngine
from perfgate.load.instructions import DRAIN_MARGIN_S, paired
from perfgate.load.processes import Generators
from perfgate.load.transport import LocalTransport, Message, ended
from perfgate.measure.plan import reads_what_it_wrote
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.prometheus_source import PrometheusSource
from perfgate.model import Consumers, Keys, Load, Scenario, settings
from perfgate.model.load import LoadError, SendsFailedError
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from tests.harness.build.generators import RESULT, SPEC, TALK, driver, observer
from tests.harness.build.transactions import TRANSACTED, brokers, request

BACKLOG, PACED = Load(kind="backlog", records=10), Load(kind="paced", rate=10)


def children() -> set[psutil.Process]:
    return set(psutil.Process().children())


def test_a_result_that_comes_before_it_is_awaited_is_not_lost() -> None:
    """A paced load with nothing left to wait for gives its result at the very end of the window, and exits."""
    edges: list[int] = []
    result = driver(TALK + RESULT).run(SPEC, observer(edges))
    assert result.sent is not None
    assert result.sent.acked == 10
    assert edges == [1, 1]


def test_a_generator_stays_connected_for_a_moment_after_its_result() -> None:
    """What brokers received was 0 in rounds whose generators ended before their connections were read."""
    said: queue.Queue[tuple[float, Message | None]] = queue.Queue()

    def until(event: str | None) -> float:
        """Return when the process said this; None: that it says no more."""
        while True:
            at, message = said.get(timeout=30)
            if (message and message["event"]) == event:
                return at
            assert message is not None

    def heard(_name: str, message: Message | None) -> None:
        said.put((time.monotonic(), message))

    row = replace(TRANSACTED, transaction_ms=0, load=Load(kind="capped", rate=1_000))
    with brokers(1) as address:
        told, others = request(row, address), children()
        spec = {**told, "records": 10, "client": {**told["client"], "log_level": "0"}}
        started = LocalTransport().start({"producer-1": spec}, heard)
        try:
            started["producer-1"].post({"start": until("ready")})
            result = until("result")
            (process,) = children() - others
            ports = {each.raddr.port for each in process.net_connections("tcp") if each.raddr}
            assert int(address.rpartition(":")[2]) in ports
            assert until(None) - result > 0.9 * worker.LINGER_S
        finally:
            ended(started)


def test_a_check_that_outlasts_the_window_does_not_stretch_it() -> None:
    """Real brokers took seconds to say how they are, and the CPU of the time after the load was counted, too."""
    sampler = PrometheusSampler(Mock(source=PrometheusSource(url="http://p")), {1: "one:9092"})
    edges: list[float] = []

    def edge(at: float) -> None:
        sampler.edge(at)
        edges.append(at)

    slow = replace(observer([]), edge=edge, check=lambda: time.sleep(0.6 if len(edges) == 1 else 0))
    driver(TALK + RESULT).run(replace(SPEC, window_s=0.1), slow)
    opened, closed = sampler._edges
    assert closed - opened == pytest.approx(edges[1] - edges[0], abs=0.3)
    assert edges[1] - edges[0] == pytest.approx(0.1)


def test_a_generator_that_exits_without_a_result_is_an_error() -> None:
    with pytest.raises(LoadError, match=r"(?s)exited with code 1 before its result.*the disk is full"):
        driver(TALK + "raise SystemExit('the disk is full')").run(SPEC, observer([]))


@pytest.mark.parametrize(
    ("last", "how"),
    [
        ('sys.stdout.write(\'{"event": "resu\')', "was killed by signal 9"),
        ("sys.stdout.write('1')", "was killed by signal 9"),
        ("sys.stdout.buffer.write(bytes([123, 0xE2]))", "was killed by signal 9"),
        ("sys.stderr.buffer.write(bytes([0xFF]))", "was killed by signal 9"),
        ("print('a library that prints')", "was ended: it wrote 'a library that prints', which is no message,"),
    ],
)
def test_a_generator_killed_while_it_writes_a_line_is_known_to_have_ended(last: str, how: str) -> None:
    """The reader of its output died of the cut line, and the run waited for the result for its whole time."""
    died = f"{last}; sys.stdout.flush(); sys.stderr.flush()\nimport os; os.kill(os.getpid(), 9)"
    began = time.monotonic()
    with pytest.raises(LoadError, match=f"the generator process producer-1 {how} before its result"):
        driver(TALK + died).run(SPEC, observer([]))
    assert time.monotonic() - began < 5


def test_a_generator_that_closes_its_output_and_stays_is_told_of() -> None:
    with pytest.raises(LoadError, match="closed its output, and did not end, before its result"):
        driver(TALK + "import os; os.close(1); time.sleep(60)", end_s=0.2).run(SPEC, observer([]))


def test_a_generator_whose_run_was_killed_while_it_wrote_ends_at_once() -> None:
    cut = QUIET_RUN.replace('spec + "\\n"', 'spec + "\\n" + chr(123)').replace(
        "child.stdin.flush()", "child.stdin.close()"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", cut.replace("child.stderr.read()", "''"), "600"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["70"], done.stdout + done.stderr
    assert time.monotonic() - began < worker.SILENT_S


def test_a_generator_that_says_why_it_cannot_start_is_quoted() -> None:
    with pytest.raises(LoadError, match="the generator process producer-1 failed: no such topic"):
        driver('print(\'{"event": "failure", "reason": "no such topic"}\')').run(SPEC, observer([]))


@pytest.mark.parametrize(("code", "kind"), [("_FENCED", SendsFailedError), ("", LoadError)])
def test_a_generator_says_whose_failure_it_was(code: str, kind: type) -> None:
    failure = f'say(event="failure", reason="transaction: committing", code="{code}")'
    with pytest.raises(LoadError, match="the generator process producer-1 failed: transaction") as raised:
        driver(TALK + failure).run(SPEC, observer([]))
    assert type(raised.value) is kind
    if isinstance(raised.value, SendsFailedError):
        assert (raised.value.attempted, raised.value.failed, raised.value.code) == (390, 0, code)


KAFKA = KafkaInstructions()


class Impatient(KafkaInstructions):
    """Those of a system whose outcomes are waited for no longer than 1 s, margin and all."""

    def drain_s_of(self, scenario: Scenario) -> float:
        return 1.0 - DRAIN_MARGIN_S


def test_a_generator_that_never_gives_its_result_is_ended() -> None:
    engine = SuiteEngine(Impatient(), LocalTransport(("-c", TALK + "time.sleep(600)")))
    with pytest.raises(LoadError, match="the generator process producer-1 gave no result within 1 s"):
        engine.run(SPEC, observer([]))


QUIET_RUN = """
import json, subprocess, sys
from perfgate.load import worker
spec = json.dumps({"most_s": float(sys.argv[1])})
waits = "from perfgate.load.worker import *; Control(); time.sleep(120)"
child = subprocess.Popen([sys.executable, "-c", waits],
                         stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
child.stdin.write(spec + "\\n")
child.stdin.flush()
print(child.wait(timeout=90), child.stderr.read())
"""


@pytest.mark.parametrize(
    ("most_s", "words"), [(600, "71 the run said nothing for 10 s"), (2, "71 the load went on for 2 s")]
)
def test_a_generator_whose_run_is_silent_or_that_goes_on_too_long_ends(most_s: float, words: str) -> None:
    done = subprocess.run([sys.executable, "-c", QUIET_RUN, str(most_s)], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith(words), done.stdout + done.stderr


def test_a_run_that_is_there_says_so() -> None:
    ready = 'say(event="ready")'
    waits = LocalTransport(("-c", TALK.replace(ready, f'hear("beat"); hear("beat"); {ready}')))
    with Generators({"producer-1": {}}, waits, beat_s=0.05) as running:
        assert running.wait_for("ready", 20, observer([]))


def test_a_run_that_stands_still_is_no_longer_there() -> None:
    """A terminal that is held holds the look at the brokers too: nobody would stop what harms them."""
    alone = """
import select
while select.select([sys.stdin], [], [], 2)[0] and sys.stdin.buffer.raw.read(4096): pass
say(event="failure", reason="nobody speaks")
"""
    held = iter((5.0,))
    holds = replace(observer([]), progress=lambda _phase, _last: time.sleep(next(held, 0.0)))
    listens = LocalTransport(("-c", TALK[: TALK.index("start =")] + alone))
    with Generators({"producer-1": {}}, listens, beat_s=0.05, held_s=0.5) as running:
        running.wait_for("ready", 20, holds)
        with pytest.raises(LoadError, match="nobody speaks"):
            running.listen_until(time.monotonic() + 20, "measuring", holds)


@pytest.mark.parametrize(
    ("load", "stated", "held_ms"), [(BACKLOG, {}, "10"), (BACKLOG, {"fetch.wait.max.ms": 80}, "80"), (PACED, {}, "500")]
)
def test_brokers_do_not_hold_the_end_of_a_backlog_that_is_read_again(
    load: Load, stated: dict[str, object], held_ms: str
) -> None:
    """A lap of 300,000 records took 1.0 to 1.5 s, most of it the 0.5 s for which each partition's end was held."""
    consumers = Consumers(membership="assigned", config=settings(stated))
    told = KAFKA.consumers_of(replace(SPEC, scenario=replace(SPEC.scenario, load=load, consumers=consumers)))
    clients: list[Any] = [worker["client"] for worker in told.values()]
    assert [client["fetch.wait.max.ms"] for client in clients] == [held_ms]


@given(
    partitions=st.integers(1, 24),
    processes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    threads=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    groups=st.integers(1, 2),
)
def test_producers_write_what_the_consumers_of_their_number_read(
    partitions: int, processes: tuple[int, int], threads: tuple[int, int], groups: int
) -> None:
    """All of the topic, each partition once, and as much of it each; otherwise nothing is changed."""
    consumers = Consumers(membership="assigned", processes=processes[1], threads=threads[1], groups=groups)
    row = replace(
        SPEC.scenario,
        topic=replace(SPEC.scenario.topic, partitions=partitions),
        producers=processes[0],
        threads=threads[0],
        consumers=consumers,
    )
    spec = replace(SPEC, scenario=row)
    wrote, read = KAFKA.producers_of(spec), KAFKA.consumers_of(spec)
    even = partitions % (processes[1] * threads[1]) == 0
    assert (pairs := paired(wrote, read)) or not (even and groups == 1 and processes[0] == processes[1])
    assert pairs == reads_what_it_wrote(row) or processes[0] == 1
    own: list[Any] = [one["own_partitions"] for one in wrote.values() if "own_partitions" in one]
    if not own:
        assert (wrote, read) == (KAFKA.producers_of(spec), KAFKA.consumers_of(spec))
        return
    assert sorted(number for each in own for number in each) == list(range(partitions))
    assert len(own) == len(wrote) == len(read)
    assert len(set(map(len, own))) == 1
    for one, (share, told) in enumerate(zip(own, read.values(), strict=True)):
        told_shares: Any = told["assigned"]
        mine = told_shares[one * threads[1] : (one + 1) * threads[1]]
        assert sorted(number for each in mine for number in each) == share


def test_keys_choose_their_partitions_themselves() -> None:
    row = replace(SPEC.scenario, consumers=Consumers(membership="assigned"), keys=Keys(kind="random"))
    spec = replace(SPEC, scenario=row)
    assert not paired(KAFKA.producers_of(spec), KAFKA.consumers_of(spec))
    assert not reads_what_it_wrote(row)
    group = replace(spec, scenario=replace(row, keys=Keys(), consumers=Consumers(membership="group")))
    assert not paired(KAFKA.producers_of(group), KAFKA.consumers_of(group))
    assert not reads_what_it_wrote(group.scenario)


WAITS = LocalTransport(("-c", "input(); input()"))
FOR_ONE = 8
"""Open files with which one process can be started: that takes 7 for a moment, and 3 for as long as it lives."""


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """Let this process open so many files more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    there = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
    free = [number for number in range(max(there) + count + 2) if number not in there]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_process_that_cannot_be_started_is_no_valid_load_and_leaves_no_other() -> None:
    """Where a machine has no process, or no room for its words, left."""
    said: list[tuple[str, Message | None]] = []
    specs: dict[str, dict[str, object]] = {"producer-1": {}, "producer-2": {}}
    others, words = children(), r"its generators cannot be started: .*Too many open files"
    with files_left(FOR_ONE), pytest.raises(LoadError, match=words):
        WAITS.start(specs, lambda *told: said.append(told))
    assert said == [("producer-1", None)], "the first one was started, and has ended"
    assert children() == others


def test_a_process_that_nobody_can_listen_to_is_ended() -> None:
    """Where no thread is left to be had it had started already, and nobody knew it."""
    others, before = children(), threading.stack_size(1 << 47)  # more than there are addresses
    try:
        with pytest.raises(LoadError, match="its generators cannot be started: can't start new thread"):
            WAITS.start({"producer-1": {}}, lambda _name, _message: None)
    finally:
        threading.stack_size(before)
    assert children() == others
