"""Twenty runs against secured Pulsar brokers, each interrupted at a random moment in a random way: what is left?"""

import os
import random
import time
from collections import defaultdict
from pathlib import Path

import pytest

from perfgate.model.target import Action
from perfgate.systems.pulsar.client.admin import TopicName
from tests.harness.live.interrupted_runs import GONE_WITHIN_S, SIGNALS, Brokers, begun, interrupt, processes_of, until
from tests.harness.run_gate import HANG_BOUND_S, gate_command
from tests.harness.secured_pulsar import SUPERUSER, TENANT, secured_pulsar, token

pytestmark = pytest.mark.slow
INTERRUPTIONS = 20
LATEST_S = 50.0
"""By then a fault is over on most machines, and nothing is away any more."""
SETTING = "dispatcherMaxRoundRobinBatchSize"
THEIRS = TopicName("others/theirs", "orders")
ROWS: dict[str, tuple[object, ...]] = {
    "plain": (
        *("-k", "paced-500", "--rounds", 3, "--window", 2),
        *("--allow-broker-config", "--set", f"broker.{SETTING}=33"),
    ),
}


def test_twenty_interrupted_runs_leave_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10**6))
    print(f"SOAK_SEED={seed}")
    chance = random.Random(seed)
    asked, state = tmp_path / "asked", tmp_path / "state"
    for folder in (asked, tmp_path / "t", tmp_path / "secured"):
        folder.mkdir()
    environment = {**os.environ, "XDG_STATE_HOME": str(state), "TMPDIR": str(tmp_path / "t")}
    with secured_pulsar(tmp_path / "secured") as made:
        ids = {port: broker for broker, port in made.web_ports.items()}

        def pids() -> dict[int, int]:
            return {port: made.cluster.pids()[broker] for port, broker in ids.items()}

        def do(action: Action, port: int) -> None:
            made.cluster.faults.do(action, ids[port])

        with (brokers := Brokers(pids, do, asked, "port")) as faults:
            made.admin.create_tenant("others", made.admin.clusters())
            made.admin.create_namespace(THEIRS.namespace, {})
            made.admin.create_topic(THEIRS, 3)
            target = made.target_file(tmp_path, SUPERUSER)
            target.write_text(f"{target.read_text()}[broker-config]\nallowed = true\n{faults}")

            def command(row: str, results: Path) -> list[str]:
                common = (f"--target={target}", "--broker-warmup", 0, "--allow-unhealthy")
                return gate_command(results, *ROWS[row], *common)

            def left() -> list[str]:
                """Return what is not as it was."""
                return [
                    *(f"broker {broker} is away" for broker in brokers.away()),
                    *(f"namespace {name}" for name in made.admin.namespaces(TENANT)),
                    *(f"{name} is {value}" for name, value in made.admin.dynamic_values().items()),
                    *([] if made.admin.partitions(THEIRS) == 3 else [f"no topic {THEIRS}"]),
                ]

            def whole(row: str, name: str) -> float:
                """Let a run go to its end, and return how long it took, in s."""
                since, log = time.monotonic(), tmp_path / f"{name}.log"
                with begun(command(row, tmp_path / name), environment, log) as process:
                    # Red it may be, on a machine that does something else besides.
                    assert process.wait(timeout=HANG_BOUND_S) in (0, 1, 6), log.read_text()[-3000:]
                assert left() == []
                return time.monotonic() - since

            lasts = {row: whole(row, f"whole-{row}") for row in ROWS}
            print("a whole run takes", {row: f"{seconds:.0f} s" for row, seconds in lasts.items()})
            took: dict[str, list[float]] = defaultdict(list)
            wrong: list[str] = []
            for number in range(INTERRUPTIONS):
                row, how = chance.choice(list(ROWS)), chance.choice(SIGNALS)
                after = chance.uniform(0.5, min(lasts[row] * 1.05, LATEST_S))
                before, log = left(), tmp_path / f"{number}.log"
                with begun(command(row, tmp_path / str(number)), environment, log) as process:
                    until(lambda process=process: process.poll() is not None, after)  # type: ignore[misc]
                    was_away, over = brokers.away(), process.poll() is not None
                    seconds = interrupt(process, how)
                now = left()
                print(
                    f"{number:2} {row:12} {how:26} after {after:4.1f} s{' (over)' if over else ''}: code "
                    f"{process.returncode}, {seconds:.1f} s, away then {was_away}, left {now}",
                    flush=True,
                )
                if not over:
                    took[f"{how}, a broker away" if was_away else how].append(seconds)
                if now and not before and not how.endswith("SIGKILL"):
                    wrong.append(f"{number}: {row}, {how} after {after:.1f} s left {now}: {log.read_text()[-2000:]}")
                if "Traceback" in (said := log.read_text()) and process.returncode not in (-2, -1, -15):
                    wrong.append(f"{number}: {row}, {how} after {after:.1f} s: {said[-2000:]}")
            for how, seconds_each in sorted(took.items()):
                print(f"{how}: ended within {max(seconds_each):.1f} s, {len(seconds_each)} times")
            whole("plain", "last")
            assert until(lambda: not processes_of(state), GONE_WITHIN_S), processes_of(state)
            assert wrong == []
            assert left() == []
            assert list(state.rglob("*.jsonl")) == []
            secret = token(SUPERUSER).encode()
            ours = (tmp_path / "secured", tmp_path / f"{SUPERUSER}.token")
            held = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(ours[0])]
            assert [path.name for path in held if path != ours[1] and secret in path.read_bytes()] == []
