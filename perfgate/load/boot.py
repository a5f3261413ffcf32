"""The first program of a run on a load host: checks the versions, installs them where asked, becomes the agent.

It is sent over the standard input of a bare Python (3.11 or newer) and knows the standard library alone. Input and
output are JSON lines; those of the output begin with MARK, because a login shell may print lines of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import re
import select
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

MARK = "perfgate "
INSTALL_S = 900.0
LOCK = "requirements-agent.lock"
UNUSED_S, UNFINISHED_S = 14 * 86400.0, 86400.0
"""An installation that no run has used for this long is deleted; an unfinished one, sooner."""
INSTALLATION = re.compile(r"[0-9a-f]{16}-[^.]+(\..+)?")
"""Name of an installation's folder; with a "." it is unfinished, or being deleted."""


class Refused(Exception):
    """The run cannot have an agent here, for this reason."""


def fingerprint(package: Path, version: str) -> str:
    digest = hashlib.sha256()
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.c")]):
        digest.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    return f"Python {version}, package {digest.hexdigest()[:12]}"


def say(**message: Any) -> None:
    os.write(1, (MARK + json.dumps(message) + "\n").encode())


def main() -> None:
    """Talk with the run; what follows on the standard input is the agent's."""
    stdin = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - by number; unbuffered: the rest is not ours
    run = json.loads(stdin.readline())
    say(event="hello", ssh=os.environ.get("SSH_CONNECTION", ""))
    try:
        if run["install"]:
            folder, python = _installed(stdin, run)
        else:
            folder, python = Path(run["folder"]).expanduser(), sys.executable
            _check(folder, run)
        os.chdir(folder)
        say(event="agent")
        os.execv(python, [python, "-m", "perfgate.load.remote"])  # noqa: S606 - as meant: the agent takes its place
    except (Refused, OSError, ValueError, tarfile.TarError) as error:
        say(event="failed", reason=str(error))


def _check(folder: Path, run: dict[str, Any]) -> None:
    if not (folder / "perfgate" / "load" / "remote.py").is_file():
        raise Refused(f"there is no checkout of this suite in {folder}, or one without agents; or say install = true")
    there = fingerprint(folder / "perfgate", platform.python_version())
    if there != run["fingerprint"]:
        raise Refused(
            f"has another version than this machine: {there} there ({sys.executable}, {folder}), "
            f"{run['fingerprint']} here; install the same Python and the same checkout on both, or say install = true"
        )
    for name, version in run["packages"].items():
        try:
            there = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise Refused(f"{sys.executable} has no {name}; install {LOCK} there, or say install = true") from None
        if there != version:
            raise Refused(f"{sys.executable} has {name} {there}, and this machine {version}; install {LOCK} there")


def _installed(stdin: io.FileIO, run: dict[str, Any]) -> tuple[Path, str]:
    here = platform.python_version()
    if here != run["python"]:
        raise Refused(
            f"{sys.executable} is Python {here}, and this machine has {run['python']}: name the same by python = ..."
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-perf-gate" / "hosts"
    place = cache / f"{run['key']}-{platform.machine()}"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not hold(place):
        say(event="send")
        size = json.loads(stdin.readline())["bytes"]
        archive = bytearray()
        while len(archive) < size:
            if not (more := stdin.read(min(1 << 20, size - len(archive)))):
                raise Refused("the run ended while it sent its package")
            archive += more
        _make(place, bytes(archive), run["pip_options"])
        if not hold(place):
            raise Refused(f"{place} was deleted while it was made")
        say(event="installed")
    (place / "complete").touch()
    prune(cache, place)
    return place, str(place / ".venv" / "bin" / "python")


def hold(place: Path) -> bool:
    """Keep others from deleting this folder while this process lives, also after exec. False: absent, or incomplete."""
    try:
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    fcntl.flock(lock, fcntl.LOCK_SH)  # a folder that is being deleted is gone then
    if not (place / "complete").exists():
        os.close(lock)
        return False
    os.set_inheritable(lock, True)
    return True


def prune(cache: Path, own: Path) -> None:
    """Delete installations of other versions that no agent uses or has used for UNUSED_S."""
    for path in cache.iterdir():
        with contextlib.suppress(OSError):  # another run deletes it too; or it stays
            installation = INSTALLATION.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
            if path != own and installation and _expired(path):
                _delete(path)


def _expired(path: Path) -> bool:
    complete = path / "complete"
    limit_s = UNUSED_S if complete.exists() and "." not in path.name else UNFINISHED_S
    return time.time() - (complete if complete.exists() else path).stat().st_mtime > limit_s


def _delete(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _expired(path) and not _has_process(path):
            # Renamed first: a run that looks for it installs it anew, and the rest of it is no installation.
            gone = path.with_name(f"{path.name.partition('.')[0]}.gone-{os.getpid()}")
            path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
    finally:
        os.close(lock)


def _has_process(path: Path) -> bool:
    """Whether a process of this user works in the folder: agents of older versions hold no lock."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # of another user, or gone
            if link.readlink().is_relative_to(path.resolve()):
                return True
    return False


def _make(place: Path, archive: bytes, pip_options: list[str]) -> None:
    """Install into a folder next to the place, and rename it once it is complete: others may be doing the same."""
    work = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(work)  # noqa: S202 - from the run, which may run anything here
        _run([sys.executable, "-m", "venv", str(work / ".venv")], "making a virtual environment (python3-venv)")
        pip = [str(work / ".venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
        pip += ["--disable-pip-version-check", "--require-hashes", "-r", str(work / "perfgate" / "load" / LOCK)]
        _run([*pip, *pip_options], f"installing {LOCK}")
        (work / "complete").touch()
        try:
            work.rename(place)
        except OSError:
            if not (place / "complete").exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], doing: str) -> None:
    """Run a command to its end; the run writes nothing meanwhile, so that readable input means its end."""
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed)
        deadline = time.monotonic() + INSTALL_S
        try:
            while process.poll() is None:
                if select.select([0], [], [], 0.1)[0]:
                    raise Refused("the run has ended")
                if time.monotonic() > deadline:
                    raise Refused(f"{doing} took more than {INSTALL_S:.0f} s")
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            printed.seek(0)
            lines = [line for line in printed.read().decode(errors="replace").splitlines() if line.strip()]
            raise Refused(f"{doing} failed: {' / '.join(lines[-3:]) or f'exit code {process.returncode}'}")
