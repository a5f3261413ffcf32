"""Pulsar's nodes: settings of each role, memory, ids and names that they are started with."""

from typing import Any

import pytest

from perfgate.model import ClusterSpec, settings
from perfgate.model.metrics import ROLES, metric_info
from perfgate.systems.pulsar.managed.nodes import (
    METADATA_STORE,
    METRICS_ROLES,
    bookie_settings,
    broker_settings,
    jvm_options,
    needed_mib,
    node_ids,
    node_name,
    role_of,
)


def pulsar(**more: object) -> ClusterSpec:
    return ClusterSpec(system="pulsar", **{"bookies": 3, **more})  # type: ignore[arg-type]  # tests name what they need


STORE = "127.0.0.1:9"
LISTENERS = {"same-zone": "127.0.0.1:1", "cross-zone": "127.0.0.1:3"}


def of_broker(spec: ClusterSpec, **more: Any) -> dict[str, str]:
    return broker_settings(spec, port=1, web_port=2, metadata=STORE, **{"listeners": LISTENERS, **more})


def of_bookie(spec: ClusterSpec, **more: Any) -> dict[str, str]:
    return bookie_settings(spec, port=1, http_port=2, metadata=STORE, folder="/data/bookie-11", **more)


def test_ids_tell_the_role_and_start_with_what_others_need() -> None:
    nodes = node_ids(pulsar(bookies=4))
    assert nodes == [21, 11, 12, 13, 14, 1, 2, 3]
    assert [node_name(node) for node in (21, 14, 3)] == ["metadata-store", "bookie-14", "broker-3"]
    assert [role_of(node) for node in (METADATA_STORE, 11, 14, 1, 10)] == [
        "metadata store",
        "bookie",
        "bookie",
        "broker",
        "broker",
    ]
    assert {*METRICS_ROLES.values()} == ROLES.keys()


@pytest.mark.parametrize(("bookies", "quorums"), [(1, "1/1/1"), (2, "2/2/2"), (3, "3/3/2"), (4, "3/3/2")])
def test_quorums_fit_the_bookies_that_there_are(bookies: int, quorums: str) -> None:
    made = of_broker(pulsar(bookies=bookies))
    names = ("EnsembleSize", "WriteQuorum", "AckQuorum")
    assert "/".join(made[f"managedLedgerDefault{name}"] for name in names) == quorums


def test_each_role_has_its_own_settings_and_they_win() -> None:
    spec = pulsar(
        config=settings({"managedLedgerCacheSizeMB": 8, "bookkeeper_delayEnsembleChange": "true"}),
        bookie_config=settings({"journalSyncData": "false", "gcWaitTime": 5}),
    )
    broker, bookie = of_broker(spec), of_bookie(spec)
    assert (broker["managedLedgerCacheSizeMB"], broker["bookkeeper_delayEnsembleChange"]) == ("8", "true")
    assert (bookie["journalSyncData"], bookie["gcWaitTime"]) == ("false", "5")
    assert "journalSyncData" not in broker
    assert "managedLedgerCacheSizeMB" not in bookie


def test_clients_of_another_zone_are_sent_to_the_proxy() -> None:
    made = of_broker(pulsar())
    assert made["advertisedListeners"] == "same-zone:pulsar://127.0.0.1:1,cross-zone:pulsar://127.0.0.1:3"
    assert made["internalListenerName"] == "same-zone"
    assert (made["bindAddress"], made["metadataStoreUrl"]) == ("127.0.0.1", "zk:127.0.0.1:9")


def test_nodes_of_a_network_of_their_own_have_names_there_and_listen_at_every_address() -> None:
    listeners = {"internal": "broker-1:6650", **LISTENERS}
    made = of_broker(pulsar(), listeners=listeners, bound="0.0.0.0")  # noqa: S104 - inside a container
    assert made["advertisedListeners"].startswith("internal:pulsar://broker-1:6650,same-zone:")
    assert (made["internalListenerName"], made["bindAddress"]) == ("internal", "0.0.0.0")  # noqa: S104
    bookie = of_bookie(pulsar(), host="bookie-11", bound="0.0.0.0")  # noqa: S104
    assert (bookie["advertisedAddress"], bookie["httpServerHost"]) == ("bookie-11", "0.0.0.0")  # noqa: S104
    assert "listeningInterface" not in bookie
    assert of_bookie(pulsar())["listeningInterface"] == "lo"


def test_options_of_a_run_are_the_brokers_and_older_javas_get_none_that_they_refuse() -> None:
    asked = ("-Xmx1g",)
    assert jvm_options("broker", asked, 25)[-1] == "-Xmx1g"
    assert "-Xmx1g" not in jvm_options("bookie", asked, 25)
    assert "--sun-misc-unsafe-memory-access=allow" in jvm_options("broker", (), 25)
    assert not [option for option in jvm_options("broker", (), 17) if "unsafe-memory" in option or "native" in option]


def test_memory_grows_with_the_nodes_and_with_the_brokers_heap() -> None:
    usual = needed_mib(pulsar())
    assert 2_000 < usual < 4_000
    assert needed_mib(pulsar(bookies=4)) > usual
    assert needed_mib(pulsar(jvm_options=("-Xmx1g",))) == usual + 3 * (1024 - 192)
    assert needed_mib(pulsar(jvm_options=("-Xmx64m",))) == usual, "a smaller heap is not counted on"


def test_figures_of_roles_have_names_units_and_words() -> None:
    info = metric_info("broker_rss_mib.bookies")
    assert info is not None
    assert (info.name, info.unit, info.label) == ("broker_rss_mib.bookies", "MiB", "memory of bookies")
    assert metric_info("broker_cpu_cores.metadata") is not None
    assert metric_info("broker_cpu_cores.others") is None
    assert metric_info("records_per_s.bookies") is None
