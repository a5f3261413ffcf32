"""The gate on three load hosts in network namespaces, and on this machine alone: the same rows on the same brokers.

The brokers listen on the bridge that joins the namespaces. The third namespace is another zone; nothing is emulated,
and its link is as long as the others, because this kernel adds no delay.
"""

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfgate.host.ports import HOST
from tests.harness.live.real_brokers import topics
from tests.harness.live.test_live_three_targets import by_command
from tests.harness.namespaces import Namespaces
from tests.harness.run_gate import Finished, gate
from tests.harness.secured import Secured, SecuredCluster, certificate, secured

PAPER = ("batch-1k", "batch-16k", "replicas-3", "acks-all", "cross-az")
FAULT = "pause-leader"
ROWS = (*PAPER, "end-to-end-1k", "paced-500", FAULT)
SELECTED = f"({' or '.join(ROWS)}) and not cross-az- and not {FAULT}-"
ZONES = {1: "az-1", 2: "az-1", 3: "az-2"}
TOP = 'brokers_zone = "az-1"\n'
SHORT = ("--rounds=2", "--window=4", "--broker-warmup=30")
LONG = "HOSTS_ROUNDS"
"""An environment variable with the options of longer rounds, for a machine where nothing else runs."""
ALL_ROWS_S = 5400


@contextmanager
def bridged(spaces: Namespaces, folder: Path, protocol: str = "SASL_SSL") -> Iterator[Secured]:
    """Start three brokers whose listener for clients is on the bridge."""

    class Bridged(SecuredCluster):
        def secured(self, listener: str) -> str:
            return super().secured(listener).replace(HOST, spaces.bridge)

        def _node_settings(self, node: int) -> dict[str, str]:
            everywhere = {"listeners": "0.0.0.0", "advertised.listeners": spaces.bridge}  # noqa: S104 - loopback too
            return {
                name: value.replace(f"SAMEZONE://{HOST}:", f"SAMEZONE://{everywhere.get(name, HOST)}:")
                for name, value in super()._node_settings(node).items()
            }

    store = certificate(folder, "broker", san=f"ip:{spaces.bridge},ip:{HOST},dns:localhost")
    with secured(folder, brokers=3, store=store, kind=Bridged, protocol=protocol) as made:
        yield made


def target(brokers: Secured, folder: Path, *, plain: bool = False) -> Path:
    """Write the target file: brokers may be paused, and clients across zones use the same servers as others.

    `plain`: nobody logs in, as connections that are not encrypted ask for.
    """
    path = by_command(brokers, folder, "kill -STOP")
    text = path.read_text() + f'[zones]\ncross-zone = "{brokers.bootstrap}"\n'
    path.write_text(re.sub(r"\[client\]\n.*?(?=\[limits\])", "", text, flags=re.DOTALL) if plain else text)
    return path


def measured_on(hosts: Path | None, path: Path, results: Path, options: str) -> Finished:
    """Run all rows on these hosts, or on this machine, with two producer processes each."""
    done = gate(
        results,
        *("tests/scenarios", "-k", SELECTED, f"--target={path}", "--allow-faults", "--relations-only"),
        *("--set=producers.processes=2", *(options.split() or SHORT), *([f"--hosts={hosts}"] if hosts else [])),
        within_s=ALL_ROWS_S,
    )
    assert done.code in (0, 6), done.output
    assert sorted(entry["name"] for entry in done.run["scenarios"]) == sorted(ROWS), done.output
    return done


def hold_accounts(done: Finished, hosts: Mapping[str, set[str]]) -> None:
    """Hold that every record is accounted for, and where each row ran: `hosts` by its name, "" for all others."""
    for entry in done.run["scenarios"]:
        name, rounds = entry["name"], entry["rounds"]
        assert {host["name"] for one in rounds for host in one["hosts"]} == hosts.get(name, hosts[""]), name
        assert all(host["started_late_ms"] > -5 for one in rounds for host in one["hosts"]), name
        if name == FAULT:
            (one,) = rounds
            assert one["failover"], (name, one["flaws"])
            integrity = one["failover"]["integrity"]
            assert [integrity[kind] for kind in ("lost", "duplicated", "reordered", "phantom", "divergent")] == [0] * 5
            assert one["metrics"]["outage_s.max"] > 1
            continue
        accounting = entry["accounting"]
        assert accounting["acked"] == accounting["offset_delta"] > 0, name
        assert accounting["failed"] == accounting["unresolved"] == 0, name
        assert accounting["attempted"] == accounting["acked"] + accounting["withdrawn"], name


def ratios(done: Finished, alone: Sequence[Finished], path: Path) -> dict[str, dict[str, float]]:
    """Return, print and write what each figure on hosts is of that on this machine alone, by row and metric.

    Of two runs `alone`, one before and one after, it is their mean: brokers get faster from run to run.
    """
    names = ("records_per_s", "received_records_per_s", "latency_ms.p50", "latency_ms.p99", "outage_s.max")
    found: dict[str, dict[str, float]] = {}
    for entry in done.run["scenarios"]:
        name, there = entry["name"], entry["metrics"]
        here = [one.scenario(name)["metrics"] for one in alone]
        both = [m for m in names if m in there and all(one.get(m, {}).get("value") for one in here)]
        found[name] = {m: there[m]["value"] / statistics.mean(one[m]["value"] for one in here) for m in both}
        each = [[round(value) for value in one["records_per_s"]["rounds"]] for one in (there, *here)]
        told = {metric: round(ratio, 3) for metric, ratio in found[name].items()}
        print(f"{name} {entry['verdict']} {told}, records/s of each round on hosts, and here: {each}")
    rates = [one["records_per_s"] for name, one in found.items() if name in PAPER]
    print(f"rates of the five rows on hosts over those of this machine: median {statistics.median(rates):.3f}")
    path.write_text(json.dumps(found, indent=1))
    return found


def hold_the_gate_on_hosts(
    hosts: Path, brokers: Secured, folder: Path, capsys: pytest.CaptureFixture[str], options: str, *, plain: bool
) -> None:
    """Run the gate on this machine, then on the hosts; hold the accounts of both, and tell the ratios of rates.

    With `options` of longer rounds, for ratios that tell, it runs on this machine again afterwards.
    """
    path = target(brokers, folder, plain=plain)
    alone = [measured_on(None, path, folder / "alone", options)]
    done = measured_on(hosts, path, folder / "hosts", options)
    alone += [measured_on(None, path, folder / "again", options)] if options else []
    assert done.run["target"]["load_hosts"]["zones"] == {f"load-{n}": zone for n, zone in ZONES.items()}
    for one in alone:
        hold_accounts(one, {"": set()})
    hold_accounts(done, {"cross-az": {"load-3"}, "": {"load-1", "load-2"}})
    with capsys.disabled():
        found = ratios(done, alone, folder / "ratios.json")
    assert set(found) == set(ROWS)
    assert all("records_per_s" in one for one in found.values())
    assert 0 < done.scenario("cross-az")["link"]["rtt_ms"] < 100
    assert topics(brokers) == []
