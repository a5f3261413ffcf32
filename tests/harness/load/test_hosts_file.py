"""The hosts file: what it says, each of its errors, and where clients of a link go."""

import re
from pathlib import Path

import pytest

from perfgate.load.hosts_file import HostsFile, Zones, load_hosts_file
from perfgate.load.ssh_hosts import LOCK, START, command_of, file_hosts
from perfgate.model import CROSS_ZONE, SAME_ZONE
from perfgate.model.declared import LINKS
from perfgate.model.errors import ConfigurationError

ONE = '[[host]]\nname = "load-1"\nssh = "gate@10.0.0.7"\nfolder = "/opt/gate"\n'
ZONED = 'brokers_zone = "az-1"\n'
AGENT = '[[host]]\nname = "load-1"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "hosts.toml"
    path.write_text(text)
    return path


def read(folder: Path, text: str) -> HostsFile:
    return load_hosts_file(written(folder, text))


def test_a_whole_file(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        'brokers_zone = "az-1"\naddress = "10.0.0.1"\nport = 8786\n'
        + ONE
        + 'zone = "az-1"\nport = 2222\nidentity = "/keys/gate"\nssh_options = ["ProxyJump=bastion"]\n'
        '[[host]]\nname = "load-2"\nssh = "load-2"\nzone = "az-2"\ninstall = true\npip_options = ["--no-index"]\n'
        '[[host]]\nname = "mine"\nlocal = true\nzone = "az-1"\n',
    )
    assert (file.address, file.port, file.here) == ("10.0.0.1", 8786, False)
    assert [host.name for host in file.hosts] == ["load-1", "load-2", "mine"]
    assert file.zones.of == {"load-1": "az-1", "load-2": "az-2", "mine": "az-1"}


def test_its_digest_is_of_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    digest = read(tmp_path, ONE).digest
    assert read(tmp_path / "elsewhere", f"# the same\n{ONE}").digest == digest
    assert read(tmp_path, ONE.replace("10.0.0.7", "10.0.0.8")).digest != digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"lacks a table for each load host, as in \[\[host\]\]"),
        ("host = 5\n", "lacks a table for each load host"),
        (
            "hosts = 5\n" + ONE,
            r"unknown key 'hosts'; legal: brokers_zone, scheduler, address, port, and tables \[\[host",
        ),
        ('port = "8786"\n' + ONE, "port = '8786' must be a port"),
        ("port = 70000\n" + ONE, "port = 70000 must be a port, 1 to 65535"),
        (ONE + 'user = "gate"\n', r"\[\[host\]\] load-1 has unknown key 'user'; legal: name, zone, ssh, local, port"),
        (ONE + 'port = "x"\n', r"\[\[host\]\] load-1 port = 'x' must be a port"),
        (ONE + "local = 1\n", "load-1 local = 1 Input should be a valid boolean"),
        ("[[host]]\nlocal = true\n", r"\[\[host\]\] 1 lacks the key 'name'"),
        (ONE.replace("load-1", "load 1"), "name = 'load 1' must be letters"),
        (ONE + ONE, "two hosts have the name 'load-1'"),
        (AGENT, 'needs either ssh = "user@host" or local = true'),
        (ONE + "local = true\n", 'needs either ssh = "user@host" or local = true'),
        (AGENT + "local = true\npython = 'python3'\n", "has python, which is for a host reached by ssh"),
        (ONE.replace("gate@10.0.0.7", "-oProxyCommand=evil"), "ssh = '-oProxyCommand=evil' must be"),
        (
            ONE.replace('folder = "/opt/gate"', ""),
            r"needs either folder \(the checkout on the host\) or install = true",
        ),
        (ONE + "install = true\n", "needs either folder"),
        (ONE + 'pip_options = ["--no-index"]\n', "pip_options is for install = true"),
        (
            AGENT
            + 'ssh = "load-1"\ninstall = true\npip_options = ["--index-url", "https://somebody:secret@packages.example/simple"]\n',
            "no user or password in an address, which everybody on the host may read",
        ),
        (
            AGENT + 'ssh = "load-1"\ninstall = true\npip_options = ["--proxy", "somebody:secret@proxy:3128"]\n',
            "no user or password in an address, which everybody on the host may read",
        ),
        (ONE + 'ssh_options = ["-A"]\n', "ssh_options: '-A' must read like"),
        (ZONED + ONE, "states brokers_zone and lacks zone"),
        (ONE + 'zone = "az-1"\n', "states zone and lacks brokers_zone"),
        ('scheduler = "10.0.0.5:8786"\n' + AGENT, "scheduler = '10.0.0.5:8786' must be tcp://HOST:PORT"),
        ('scheduler = "tcp://10.0.0.5:8786"\n' + ONE, "has ssh, and the file a scheduler, whose workers the hosts are"),
        (ZONED + 'scheduler = "tcp://10.0.0.5:8786"\n' + AGENT, "states brokers_zone and lacks zone"),
        ('scheduler = "tcp://10.0.0.5:8786"\n' + AGENT + 'zone = "az-1"\n', "states zone and lacks brokers_zone"),
        ('scheduler = "tcp://10.0.0.5:8786"\nport = 1\n' + AGENT, "address and port are those of the run's own"),
    ],
)
def test_what_is_wrong_is_told_with_file_key_and_what_is_legal(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(f"hosts file {tmp_path / 'hosts.toml'}: ")


def test_a_file_that_is_not_there_or_no_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"hosts file .*none\.toml: no such file; docs/hosts\.md"):
        load_hosts_file(tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match=r"hosts file .*hosts\.toml: Invalid value"):
        read(tmp_path, "host = [")


def test_ssh_is_the_users_own_and_its_command_line_holds_no_secret(tmp_path: Path) -> None:
    (host,) = read(tmp_path, ONE + 'port = 2222\nidentity = "/k"\nssh_options = ["ConnectTimeout=3"]\n').hosts
    command = command_of(host)
    assert command[:4] == ["ssh", "-T", "-o", "BatchMode=yes"]
    assert command.index("ConnectTimeout=3") < command.index("ConnectTimeout=10"), "of two, ssh takes the first"
    assert command[-6:-2] == ["2222", "-i", "/k", "--"]
    assert command[-2] == "gate@10.0.0.7"
    assert command[-1] == f"exec /opt/gate/.venv/bin/python -c '{START}'"


@pytest.mark.parametrize(
    ("keys", "python"),
    [
        ('folder = "/opt/gate"', "/opt/gate/.venv/bin/python"),
        ('folder = "~/gate"', "gate/.venv/bin/python"),
        ("install = true", "python3"),
        ('install = true\npython = "/usr/bin/python3.11"', "/usr/bin/python3.11"),
    ],
)
def test_which_python_is_started(tmp_path: Path, keys: str, python: str) -> None:
    (host,) = read(tmp_path, f'[[host]]\nname = "a"\nssh = "a"\n{keys}\n').hosts
    assert host.interpreter == python


def test_other_versions_than_hosts_are_given_are_refused_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer release than the lock's was refused by each host, with advice that could not help."""
    newer = tmp_path / "newer" / "psutil-99.0.dist-info"
    newer.mkdir(parents=True)
    (newer / "METADATA").write_text("Metadata-Version: 2.1\nName: psutil\nVersion: 99.0\n")
    monkeypatch.syspath_prepend(newer.parent)
    (given,) = re.findall(r"^psutil==\S+", LOCK.read_text(), re.MULTILINE)
    file = read(tmp_path, AGENT + 'ssh = "nowhere.invalid"\ninstall = true\n')
    with pytest.raises(ConfigurationError) as raised, file_hosts(file):
        pass
    assert str(raised.value).startswith(f"--hosts={file.path}: install = true gives load-1 {given}, and this machine ")
    assert "has psutil 99.0; install the same here: " in str(raised.value)
    assert str(raised.value).endswith(f" -m pip install {given}")


NEAR = Zones(brokers="az-1", of={"a": "az-1", "b": "az-1"})
BOTH = Zones(brokers="az-1", of={"a": "az-1", "b": "az-2", "c": "az-3"})
FAR = Zones(brokers="az-1", of={"b": "az-2"})
UNTOLD = Zones(brokers="", of={"a": "", "b": ""})


@pytest.mark.parametrize(
    ("zones", "near", "across"),
    [
        (NEAR, ("a", "b"), ("a", "b")),
        (UNTOLD, ("a", "b"), ("a", "b")),
        (BOTH, ("a",), ("b", "c")),
        (FAR, (), ("b",)),
    ],
)
def test_clients_go_to_the_zone_that_their_link_asks_for(
    zones: Zones, near: tuple[str, ...], across: tuple[str, ...]
) -> None:
    assert zones.hosts(SAME_ZONE) == near
    for link in LINKS.values():
        if link.crosses_zones:
            assert zones.hosts(link) == across
    assert zones.real is (near != across)


def test_a_link_without_a_host_is_told_and_no_other_is_taken() -> None:
    assert FAR.cannot(CROSS_ZONE) is None
    assert FAR.cannot(SAME_ZONE) == "no load host is in the zone of the brokers, az-1: there are b (az-2)"
