"""Sixty runs against secured brokers, each interrupted at a random moment in a random way: what is left in the end?"""

import os
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.client.admin import dynamic_value
from tests.harness.live.interrupted_runs import GONE_WITHIN_S, Brokers, Soak, processes_of, until
from tests.harness.live.real_brokers import SETTING, content, produce, topics
from tests.harness.run_gate import PROBES, gate_command
from tests.harness.secured import PASSWORD, STORE_PASSWORD, USER, Secured, secured

pytestmark = pytest.mark.slow
INTERRUPTIONS = 60
SCENARIOS = "tests/scenarios"
ROWS: dict[str, tuple[object, ...]] = {
    "plain": (
        PROBES,
        "-k",
        "paced-slow",
        "--rounds",
        3,
        "--window",
        2,
        "--allow-broker-config",
        "--set",
        f"broker.{SETTING}=16000",
    ),
    "pause-leader": (SCENARIOS, "-k", "pause-leader", "--allow-faults"),
    "kill-leader": (SCENARIOS, "-k", "kill-leader and not kill-leader-", "--allow-faults"),
}


def setting(made: Secured, broker: int) -> str:
    """Return the broker's dynamic value of SETTING; empty when there is none."""
    try:
        return dynamic_value(made.admin, str(broker), SETTING) or ""
    except TargetError as error:
        return f"not told: {error}"


def test_sixty_interrupted_runs_leave_nothing(tmp_path: Path) -> None:
    asked, state = tmp_path / "asked", tmp_path / "state"
    asked.mkdir()
    (tmp_path / "t").mkdir()
    environment = {**os.environ, "XDG_STATE_HOME": str(state), "TMPDIR": str(tmp_path / "t")}
    with (
        secured(tmp_path, brokers=3) as made,
        (brokers := Brokers(made.cluster.broker_pids, made.cluster.faults.do, asked)) as faults,
    ):
        made.allow_sight(USER)
        made.allow_settings(USER)
        foreign = {"payments": [b"1", b"2"], "orders": [b"a", b"b", b"c"]}
        made.admin.create_topics([NewTopic("ledger", num_partitions=3, replication_factor=3)])["ledger"].result(60)
        for topic, values in foreign.items():
            produce(made, topic, values)
        theirs = sorted([*foreign, "ledger"])
        (tmp_path / "client.properties").write_text(  # a store that is converted: keys in a folder of the run's own
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f"ssl.truststore.location={tmp_path}/broker.pkcs12\nssl.truststore.type=PKCS12\n"
            f"ssl.truststore.password={STORE_PASSWORD}\nsasl.jaas.config=org.apache.kafka.common.security.scram."
            f'ScramLoginModule required username="{USER}" password="{PASSWORD}";\n'
        )
        target = tmp_path / "staging.toml"
        target.write_text(
            f'bootstrap-servers = "{made.bootstrap}"\n[client]\nproperties-file = "client.properties"\n'
            f'[limits]\nbytes = "200 GB"\nmib-per-s = 400\n[broker-config]\nallowed = true\n{faults}'
        )

        def command(row: str, results: Path) -> list[str]:
            return gate_command(results, *ROWS[row], "--target", target, "--broker-warmup", 0, "--allow-unhealthy")

        def left() -> list[str]:
            """Return what is not as it was."""
            there, away = topics(made), brokers.away()
            settings = {broker: setting(made, broker) for broker in made.cluster.broker_pids() if broker not in away}
            return [
                *(f"broker {broker} is away" for broker in away),
                *(f"topic {name}" for name in there if name not in theirs),
                *(f"no topic {name}" for name in theirs if name not in there),
                *(f"{SETTING} of broker {broker} is {value}" for broker, value in settings.items() if value),
            ]

        soak = Soak(tmp_path, list(ROWS), command, left, brokers.away, environment)
        soak.interrupt(INTERRUPTIONS)
        soak.whole("plain", "last")
        assert until(lambda: not processes_of(state), GONE_WITHIN_S), processes_of(state)
        assert soak.wrong == []
        assert left() == []
        assert list(state.rglob("*.jsonl")) == []
        for topic, values in foreign.items():
            assert content(made, topic, len(values)) == values
        try:
            groups = [group.group_id for group in made.admin.list_consumer_groups().result(60).valid]
        except KafkaException as error:
            raise AssertionError(str(error)) from error
        assert [group for group in groups if group.startswith("kpg-")] == []
        files = sorted(str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*"))
        assert [name for name in files if "keys" in name] == []
        print("files left in the temporary folder:", files)
        stated = {target, tmp_path / "client.properties"}
        held = [path for path in tmp_path.rglob("*") if path.is_file() and path not in stated]
        secrets = (PASSWORD.encode(), STORE_PASSWORD.encode())
        assert [path.name for path in held if any(secret in path.read_bytes() for secret in secrets)] == []
