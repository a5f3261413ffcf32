"""Real brokers for clients on load hosts: the text of PEM files instead of their names, no other file; real zones."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.load.hosts_file import HostsFile, LoadHost
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret
from perfgate.systems.attached.target_file import Limits
from perfgate.systems.kafka.attached.client_settings import NAMES_A_FILE, inlined
from perfgate.systems.kafka.attached.described import DescribedTarget

TARGET = Path("staging.toml")


def test_pem_files_travel_inside_the_settings(tmp_path: Path) -> None:
    for name in ("ca", "own", "key"):
        (tmp_path / f"{name}.pem").write_text(f"text of the {name} file, long enough to be told apart")
    client = (
        ("sasl.password", Secret("pa55word")),
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", str(tmp_path / "ca.pem")),
        ("ssl.certificate.location", str(tmp_path / "own.pem")),
        ("ssl.key.location", str(tmp_path / "key.pem")),
    )
    found = dict(inlined(client, TARGET))
    assert sorted(found) == ["sasl.password", "security.protocol", "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"]
    assert found["ssl.ca.pem"].startswith("text of the ca")
    assert isinstance(found["ssl.key.pem"], Secret)
    assert isinstance(found["sasl.password"], Secret)


def test_the_authorities_of_a_machine_are_left_to_it() -> None:
    assert inlined((("ssl.ca.location", "probe"),), TARGET) == (("ssl.ca.location", "probe"),)


@pytest.mark.parametrize("name", NAMES_A_FILE)
def test_a_file_that_no_setting_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"target file staging\.toml: {name} names a file of this machine"):
        inlined(((name, "/keys/own.p12"),), TARGET)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.pem"):
        with pytest.raises(ConfigurationError, match=r"staging\.toml: ssl\.ca\.location: --hosts sends the text of"):
            inlined((("ssl.ca.location", str(path)),), TARGET)


DESCRIBED = DescribedTarget(
    name="staging",
    path=TARGET,
    bootstrap="kafka:9092",
    client=(("ssl.keystore.location", "own.p12"),),
    limits=Limits(total_bytes=math.inf, bytes_per_s=math.inf),
    cross_zone_bootstrap="kafka:9093",
)


def hosts(*zones: str, **keys: object) -> HostsFile:
    there = tuple(LoadHost(name=f"load-{n}", zone=zone, **keys) for n, zone in enumerate(zones))  # type: ignore[arg-type]
    return HostsFile(path=Path("hosts.toml"), hosts=there, brokers_zone="az-1")


def test_clients_in_a_real_other_zone_use_the_servers_of_all() -> None:
    one, both = hosts("az-1", local=True), hosts("az-1", "az-2", local=True)
    assert DESCRIBED.for_load_hosts(one).cross_zone_bootstrap == "kafka:9093", "as without hosts: the file's own"
    assert DESCRIBED.for_load_hosts(both).cross_zone_bootstrap == "kafka:9092"


def test_files_are_refused_where_a_host_is_another_machine_alone() -> None:
    assert DESCRIBED.for_load_hosts(hosts("az-1", local=True)).client == DESCRIBED.client
    with pytest.raises(ConfigurationError, match=r"ssl\.keystore\.location names a file of this machine"):
        DESCRIBED.for_load_hosts(hosts("az-1", ssh="load-1", install=True))
    assert replace(DESCRIBED, client=()).for_load_hosts(hosts("az-1", ssh="load-1", install=True)).client == ()
