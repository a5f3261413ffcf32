"""Load hosts of the tests: network namespaces on a bridge of this machine, each with an address and an sshd of its own.

They share this machine's files and processes; connections between them and to the root namespace are real ones.
"""

import ipaddress
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfgate.host.ports import listens

ROOT = Path(__file__).parents[2]
SSHD, STARTS_WITHIN_S = "/usr/sbin/sshd", 30
CONFIG = """
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
"""


@dataclass(frozen=True)
class Namespaces:
    """`bridge`: this machine's address there; `addresses` and `names` of the namespaces, in their order."""

    folder: Path
    bridge: str
    addresses: tuple[str, ...]
    names: tuple[str, ...]

    def host(self, number: int, **keys: object) -> str:
        """Return the table of a hosts file for the namespace of this number, from 1 on; `keys` besides or instead."""
        known = {
            "name": f"load-{number}",
            "ssh": f"root@{self.addresses[number - 1]}",
            "identity": str(self.folder / "user_key"),
            "ssh_options": [f"UserKnownHostsFile={self.folder}/known_hosts", "IdentitiesOnly=yes"],
            "folder": str(ROOT),
            **keys,
        }
        return "[[host]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in known.items() if value is not None)

    @contextmanager
    def cut(self, number: int) -> Iterator[None]:
        """Have no packet of the namespace of this number arrive anywhere, not even that a connection has ended."""
        link = f"{self.names[number - 1]}o"
        _run("ip", "link", "set", link, "down")
        try:
            yield
        finally:
            _run("ip", "link", "set", link, "up")

    def file(self, *tables: str, top: str = "", name: str = "hosts.toml") -> Path:
        """Write a hosts file of these tables."""
        path = self.folder / name
        path.write_text(top + "".join(tables))
        return path


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def _run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, (command, done.stderr)
    return done.stdout


def cannot() -> str:
    """Return why there can be no such hosts here; empty when there can."""
    if os.geteuid():
        return "network namespaces need root"
    if missing := [name for name in (SSHD, "ssh", "ssh-keygen", "ip") if not shutil.which(name)]:
        return f"{missing[0]} is not installed"
    probe = f"kpg{os.getpid()}p"
    for command in (f"netns add {probe}", f"netns exec {probe} true", f"link add {probe} type bridge"):
        tried = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
        if tried.returncode:
            break
    for command in (f"link del {probe}", f"netns del {probe}"):
        subprocess.run(["ip", *command.split()], capture_output=True, check=False)
    return f"no network namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def need_namespaces() -> None:
    """Skip the test where there can be none; fail where there have to be some (SSH_REQUIRED)."""
    if reason := cannot():
        assert not os.environ.get("SSH_REQUIRED"), reason
        pytest.skip(reason)


@contextmanager
def namespaces(folder: Path, count: int) -> Iterator[Namespaces]:
    """Make so many, with an sshd each, and remove them then."""
    name = f"kpg{os.getpid() % 100_000}"
    net = ipaddress.ip_network((int(ipaddress.ip_address("10.192.0.0")) + (os.getpid() % 8192) * 256, 24))
    bridge, *addresses = (str(net[1]), *(str(net[10 + number]) for number in range(1, count + 1)))
    for key in ("host_key", "user_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
    public = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text("".join(f"{address} {public}\n" for address in addresses))
    Path("/run/sshd").mkdir(exist_ok=True)  # its privilege separation wants it
    with ExitStack() as stack:
        _run("ip", "link", "add", f"{name}b", "type", "bridge")
        stack.callback(_run, "ip", "link", "del", f"{name}b")
        _run("ip", "addr", "add", f"{bridge}/24", "dev", f"{name}b")
        _run("ip", "link", "set", f"{name}b", "up")
        names = tuple(f"{name}n{number}" for number in range(1, count + 1))
        for own, address in zip(names, addresses, strict=True):
            _namespace(stack, own, f"{name}b", address, folder)
        yield Namespaces(folder=folder, bridge=bridge, addresses=tuple(addresses), names=names)


def _namespace(stack: ExitStack, name: str, bridge: str, address: str, folder: Path) -> None:
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "del", name)
    _run("ip", "link", "add", f"{name}o", "type", "veth", "peer", "name", "eth0", "netns", name)
    _run("ip", "link", "set", f"{name}o", "master", bridge, "up")
    for command in (f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
        _run("ip", "-n", name, *command.split())
    config = folder / f"{name}.conf"
    config.write_text(CONFIG.format(address=address, folder=folder))
    with (folder / f"{name}.log").open("w") as log:
        sshd = subprocess.Popen(["ip", "netns", "exec", name, SSHD, "-D", "-e", "-f", config], stderr=log)
    stack.callback(sshd.wait, 30)
    stack.callback(sshd.terminate)
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not listens(f"{address}:22", 1.0):
        assert sshd.poll() is None, (folder / f"{name}.log").read_text()
        assert time.monotonic() < deadline, "sshd does not listen"
        time.sleep(0.05)
