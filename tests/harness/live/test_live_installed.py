"""The package in a clean environment outside of any checkout: init, pytest, compare, an upgrade, and its removal."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import perfgate
from perfgate.model import Verdict
from perfgate.model.judged import ExitCode
from tests.harness.fixtures.test_package import build
from tests.harness.run_gate import HANG_BOUND_S, ROOT

pytestmark = pytest.mark.slow
OLDER = "0.0.1"
SHORT = (
    *("-k", "orders and not zstd", "--gate-rounds=2", "--gate-window=1", "--gate-warmup-max=1"),
    "--gate-broker-warmup=20",
)
"""Noise is not what is tested: what it leaves undecided is let pass."""
AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
HIDDEN = 'mount -t tmpfs none "$0" && test -z "$(ls "$0")" && exec "$@"'
FOREIGN = tuple(f"tests/test_{name}.py" for name in ("fixture", "pedantic", "precision", "skip", "stats", "utils"))
"""Of pytest-benchmark's modules those that take no minutes and need nothing else."""
MOST_GOES = 4
CACHES = {".cache", ".config", ".m2", ".npm"}
"""docs/stability.md names them; in ~/.config lies what matplotlib makes."""
KEPT = {"kafka-perf-gate", "matplotlib", "fontconfig", "pip"}
"""In ~/.cache: this package's, and those of what it asks for."""
THRESHOLDS = """[profile]
target = "embedded"
cpu_model = "none that there is"

[orders-plain]
"latency_ms.p99" = { baseline = 60, tolerance = 0.66 }
"""


def interpreters() -> dict[str, str]:
    """Return the Python of each release that is found here, by its number: this one, and others."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for release in ("3.11", "3.12", "3.13"):
        at = shutil.which(f"python{release}")
        pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{release}.*/bin/python"))
        for python in [str(one) for one in pyenv] + ([at] if at else []):
            ended = subprocess.run([python, "-c", "import ensurepip, ssl"], capture_output=True, check=False)
            if not ended.returncode:
                found[release] = python
    return found


PYTHONS = interpreters()


class Environment:
    """A virtual environment with the package, and a home of its own whose caches are those of this machine."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder, self.home, self.scratch = folder, folder / "home", folder / "tmp"
        self.bin = folder / "venv" / "bin"
        self.prefix: tuple[str, ...] = ()
        """What each command is called by."""
        for made in (self.home / ".cache", self.scratch):
            made.mkdir(parents=True)
        for cache in (".m2", ".cache/kafka-perf-gate"):
            (Path.home() / cache).mkdir(parents=True, exist_ok=True)
            (self.home / cache).symlink_to(Path.home() / cache)
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True, timeout=HANG_BOUND_S)

    def pip(self, *arguments: object) -> None:
        done = self.call("python", "-m", "pip", "--quiet", *arguments, HOME=str(Path.home()))
        assert done.returncode == 0, done.stdout + done.stderr

    def call(
        self, program: str, *arguments: object, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        own = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "XDG_", "COVERAGE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        changed = {"HOME": str(self.home), "TMPDIR": str(self.scratch), "PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run(
            [*self.prefix, str(self.bin / program), *map(str, arguments)],
            cwd=cwd or self.folder,
            env={**kept, **changed, **environment},
            capture_output=True,
            text=True,
            timeout=HANG_BOUND_S,
        )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the wheel of an older version, and the present one."""
    older = tmp_path_factory.mktemp("older")
    for name in ("perfgate", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, older / name)
    stated = older / "perfgate" / "__init__.py"
    stated.write_text(stated.read_text().replace(f'"{perfgate.__version__}"', f'"{OLDER}"'))
    return build("wheel", older / "dist", older), build("wheel", tmp_path_factory.mktemp("dist"))


def runs(team: Path) -> list[Path]:
    return [path for path in sorted((team / "results").glob("2*")) if (path / "run.json").exists()]


@pytest.mark.parametrize("release", [*PYTHONS])
def test_a_team_has_it_from_a_wheel(release: str, wheels: tuple[Path, Path], tmp_path: Path) -> None:
    older, present = wheels
    environment = Environment(PYTHONS[release], tmp_path)
    environment.pip("install", older)
    done = environment.call("kafka-perf-gate", "init", "demo", "--ci", "github")
    assert done.returncode == 0, done.stdout + done.stderr
    team = tmp_path / "demo"
    assert (team / "requirements.txt").read_text() == f"kafka-perf-gate=={OLDER}\n"

    done = environment.call("pytest", *SHORT, "--gate-undecided=pass", cwd=team)
    assert done.returncode == 0, done.stdout + done.stderr
    (first,) = runs(team)
    recorded = perfgate.load_run(first)
    assert {one.name for one in recorded.scenarios} == {"orders-plain", "orders-lz4"}
    assert [one.name for one in recorded.relations] == ["orders-latency"]
    assert re.fullmatch(rf"{re.escape(OLDER)}-[0-9a-f]{{8}}", str(recorded.environment["commit"]))
    assert (first / "answers.html").exists()
    (team / "thresholds" / "ours.toml").write_text(THRESHOLDS)

    environment.pip("install", "--upgrade", present)
    done = environment.call("pytest", *SHORT, "--gate-undecided=pass", cwd=team)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(runs(team)) == 2
    history = [json.loads(line) for line in (team / "results" / "history.jsonl").read_text().splitlines()]
    assert [line["commit"].partition("-")[0] for line in history] == [OLDER, perfgate.__version__]
    assert (team / "thresholds" / "ours.toml").read_text() == THRESHOLDS

    words = [word.replace("--gate-", "--") for word in SHORT]
    done = environment.call("kafka-perf-gate", "compare", "changes/linger-5.toml", *words, "--budget=40s", cwd=team)
    assert done.returncode in (0, 6), done.stdout + done.stderr
    compared = runs(team)[-1]
    assert {one.scenario for one in perfgate.load_run(compared).comparisons} == {"orders-plain", "orders-lz4"}
    assert (compared / "report" / "index.html").exists(), done.stdout + done.stderr

    environment.pip("uninstall", "--yes", "kafka-perf-gate")
    packages = next((tmp_path / "venv" / "lib").glob("python3*/site-packages"))
    assert not (environment.bin / "kafka-perf-gate").exists()
    assert not [*packages.glob("kafka*")]
    left = [path for path in (packages / "perfgate").rglob("*") if path.is_file()]
    assert all(path.parent.name == "__pycache__" and "-pytest-" in path.name for path in left), left
    assert {path.name for path in environment.home.iterdir()} <= CACHES
    assert {path.name for path in (environment.home / ".cache").iterdir()} <= KEPT
    assert [*environment.scratch.iterdir()] == []


def test_the_whole_smoke_runs_with_the_checkout_hidden(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    """In a mount namespace in which an empty folder lies over the checkout."""
    environment = Environment(sys.executable, tmp_path)
    environment.pip("install", wheels[1])
    folder = tmp_path / "anywhere"
    folder.mkdir()
    words = ["gate", "--tier=smoke", "--relations-only", "--rounds=5"]
    environment.prefix = ("unshare", *AS_ROOT, "--mount", "sh", "-c", HIDDEN, str(ROOT))
    done = environment.call("kafka-perf-gate", *words, cwd=folder)
    assert done.returncode in (0, 6), done.stdout + done.stderr
    (run,) = runs(folder)
    measured = perfgate.load_run(run)
    assert len(measured.scenarios) == 7
    assert len(measured.relations) == 8
    assert {one.verdict for one in measured.scenarios} == {Verdict.MISSING}, "no limits, and every load valid"
    assert (run / "report" / "index.html").exists(), done.stdout + done.stderr


def test_a_baseline_of_a_teams_own_scenarios_is_recorded_accepted_and_held(tmp_path: Path) -> None:
    team, own = tmp_path / "team", {**os.environ, "PYTHONPATH": str(ROOT)}

    def called(*words: object) -> int:
        command = [sys.executable, "-m", "perfgate", *map(str, words)]
        cwd = tmp_path if words[0] == "init" else team
        return subprocess.run(command, cwd=cwd, env=own, timeout=3 * HANG_BOUND_S, check=False).returncode

    short = ["-k", "orders and not zstd"]  # rounds as the tier has them: brokers that still compile make no baseline
    assert called("init", team) == 0
    # Where brokers and load share two cores some runs do not count; after three in succession it stops, and goes on.
    codes = (called("baseline", "--runs=5", "--accept", *short) for _ in range(MOST_GOES))
    assert next((code for code in codes if code != ExitCode.UNDECIDED), ExitCode.UNDECIDED) == 0
    (profile,) = (team / "thresholds").glob("*.toml")
    assert {"orders-plain", "orders-lz4"} <= tomllib.loads(profile.read_text()).keys()
    assert called("list", "--tier=full") == 0, "tables of scenarios that there are not would be refused"
    called("gate", *short)  # five short runs bound nothing tightly: any verdict will do
    held = perfgate.load_run(team / "results" / "latest")
    assert held.profile == profile.stem
    assert not {one.verdict for one in held.scenarios} & {None, Verdict.MISSING}


def test_the_entry_point_leaves_another_packages_tests_alone(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    """Those of pytest-benchmark, whose options the gate sets in sessions of its own."""
    environment = Environment(sys.executable, tmp_path)
    environment.pip("install", wheels[1])
    asked = f"pytest-benchmark=={version('pytest-benchmark')}"
    environment.pip("download", "--no-deps", "--no-binary=pytest-benchmark", asked, "-d", tmp_path)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as files:
        files.extractall(tmp_path, filter="data")
    theirs = tmp_path / packed.name.removesuffix(".tar.gz")
    done = environment.call("pytest", "-o", "addopts=", "-q", *FOREIGN, cwd=theirs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d{2,} passed", done.stdout, re.MULTILINE)
