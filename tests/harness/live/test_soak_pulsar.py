"""Twenty runs against secured Pulsar brokers, each interrupted at a random moment in a random way: what is left?"""

import os
from pathlib import Path

import pytest

from perfgate.model.target import Action
from perfgate.systems.pulsar.client.admin import TopicName
from tests.harness.live.interrupted_runs import GONE_WITHIN_S, Brokers, Soak, processes_of, until
from tests.harness.run_gate import gate_command
from tests.harness.secured_pulsar import SUPERUSER, TENANT, secured_pulsar, token

pytestmark = pytest.mark.slow
INTERRUPTIONS = 20
SETTING = "dispatcherMaxRoundRobinBatchSize"
THEIRS = TopicName("others/theirs", "orders")
ROWS: dict[str, tuple[object, ...]] = {
    "plain": (
        *("-k", "paced-500", "--rounds", 3, "--window", 2),
        *("--allow-broker-config", "--set", f"broker.{SETTING}=33"),
    ),
}


def test_twenty_interrupted_runs_leave_nothing(tmp_path: Path) -> None:
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

            soak = Soak(tmp_path, list(ROWS), command, left, brokers.away, environment)
            soak.interrupt(INTERRUPTIONS)
            soak.whole("plain", "last")
            assert until(lambda: not processes_of(state), GONE_WITHIN_S), processes_of(state)
            assert soak.wrong == []
            assert left() == []
            assert list(state.rglob("*.jsonl")) == []
            secret = token(SUPERUSER).encode()
            ours = (tmp_path / "secured", tmp_path / f"{SUPERUSER}.token")
            held = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(ours[0])]
            assert [path.name for path in held if path != ours[1] and secret in path.read_bytes()] == []
