"""Facts of machine and software: the commit, and recorded texts of /proc/cpuinfo and of `chronyc -c tracking`."""

import re
import subprocess
import time
from pathlib import Path

import pytest

import perfgate
from perfgate.host import environment
from perfgate.host.environment import cpu_model
from tests.harness.run_gate import ROOT


def repository(folder: Path) -> Path:
    """Make one with a commit; return the file in it."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    kept = folder / "code.py"
    kept.write_text("a = 1\n")
    for command in (("init", "-q"), ("add", "code.py"), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *command], cwd=folder, check=True, timeout=60)
    return kept


def test_further_edits_of_a_checkout_are_another_state_of_it(tmp_path: Path) -> None:
    """Both were `-dirty`: a run that was interrupted could be continued by other code."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    kept = repository(tmp_path)
    clean = environment.commit(tmp_path)
    assert len(clean) == 12
    states = []
    for text in ("a = 2\n", "a = 3\n", "a = 2\n"):
        kept.write_text(text)
        states.append(environment.commit(tmp_path))
    assert all(state.startswith(f"{clean}-dirty-") for state in states)
    assert states[0] != states[1]
    assert states[0] == states[2]


def test_an_installed_package_is_its_version_and_files_whatever_repository_its_environment_lies_in(
    tmp_path: Path,
) -> None:
    packages = tmp_path / ".venv" / "lib" / "site-packages"
    (packages / "perfgate" / "__pycache__").mkdir(parents=True)
    repository(tmp_path)
    (tmp_path / "pyproject.toml").write_text('name = "orders"\n')
    states = list[str]()
    for text in ("a = 1\n", "a = 2\n", "a = 1\n"):
        (packages / "perfgate" / "code.py").write_text(text)
        (packages / "perfgate" / "__pycache__" / f"{len(states)}.pyc").write_text("compiled")
        states.append(environment.commit(packages))
    assert all(re.fullmatch(rf"{re.escape(perfgate.__version__)}-[0-9a-f]{{8}}", state) for state in states)
    assert states[0] == states[2] != states[1], "a run is not continued by other code of the same version"


def test_a_checkout_without_its_history_is_its_version(tmp_path: Path) -> None:
    """Unpacked below another repository, whose commit is none of it."""
    repository(tmp_path)
    unpacked = tmp_path / "tools" / "gate"
    unpacked.mkdir(parents=True)
    (unpacked / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    assert environment.commit(unpacked).startswith(f"{perfgate.__version__}-")


GRAVITON_2 = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

processor\t: 1
BogoMIPS\t: 243.75
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""
GRAVITON_4 = GRAVITON_2.replace("0xd0c", "0xd4f").replace("243.75", "2000.00")
BIG_AND_LITTLE = """processor\t: 0
model name\t: ARMv8 Processor rev 4 (v8l)
CPU implementer\t: 0x41
CPU part\t: 0xd08

processor\t: 1
model name\t: ARMv8 Processor rev 4 (v8l)
CPU implementer\t: 0x41
CPU part\t: 0xd03

Hardware\t: Rockchip RK3399
"""
X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8488C
stepping\t: 8
cpu MHz\t\t: 2400.000
power management:

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8488C
"""
POWER = """processor\t: 0
cpu\t\t: POWER9 (architected), altivec supported
clock\t\t: 2200.000000MHz
"""
RISC_V = """processor\t: 0
hart\t\t: 1
isa\t\t: rv64imafdc
uarch\t\t: sifive,u74-mc
"""


@pytest.mark.parametrize(
    ("text", "machine", "name"),
    [
        (GRAVITON_2, "aarch64", "aarch64 implementer 0x41 part 0xd0c"),
        (GRAVITON_4, "aarch64", "aarch64 implementer 0x41 part 0xd4f"),
        (BIG_AND_LITTLE, "aarch64", "aarch64 implementer 0x41 part 0xd03 + 0xd08"),
        (X86, "x86_64", "Intel(R) Xeon(R) Platinum 8488C"),
        (POWER, "ppc64le", "POWER9 (architected), altivec supported"),
        (RISC_V, "riscv64", "sifive,u74-mc"),
        ("processor\t: 0\n", "s390x", "s390x"),
        ("", "aarch64", "aarch64"),
    ],
)
def test_processors_that_differ_have_different_names(text: str, machine: str, name: str) -> None:
    """All ARM machines were called "aarch64": the thresholds of a Graviton 2 were held against a Graviton 4."""
    assert cpu_model(text, machine) == name


FOLLOWS = (
    "7F000001,127.0.0.1,9,1795499715.301914714,0.000000301,-0.000000036,0.000001998,0.008,-0.001,0.116,"
    "0.000001351,0.000002273,1.0,Normal\n"
)
JUST_STARTED = (
    "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,1.000000000,1.000000000,0.0,"
    "Not synchronised\n"
)


def test_the_bound_is_offset_and_dispersion_and_half_the_delay() -> None:
    found = environment.parse_tracking(FOLLOWS)
    assert (found.stratum, found.synchronised) == (9, True)
    figures = (found.offset_ms, found.root_delay_ms, found.root_dispersion_ms, found.bound_ms)
    assert figures == pytest.approx((0.000301, 0.001351, 0.002273, 0.000301 + 0.002273 + 0.001351 / 2))
    behind = environment.parse_tracking(FOLLOWS.replace("0.000000301", "-0.001000000"))
    assert (behind.offset_ms, behind.bound_ms) == pytest.approx((-1.0, 1 + 0.002273 + 0.001351 / 2))


def test_a_clock_that_follows_nothing_has_no_bound() -> None:
    found = environment.parse_tracking(JUST_STARTED)
    assert (found.synchronised, found.bound_ms) == (False, None)


@pytest.mark.parametrize(
    "text",
    ["", "506 Cannot talk to daemon\n", FOLLOWS.replace(",Normal", ""), FOLLOWS.replace("0.000002273", "nan")],
    ids=["nothing", "no-daemon", "too-few-fields", "no-number"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="chronyc"):
        environment.parse_tracking(text)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (f"printf '{FOLLOWS}'", True),
        ("echo Could not open connection to daemon >&2; exit 1", False),
        ("exec sleep 60", False),
    ],
    ids=["answers", "no-daemon", "hangs"],
)
def test_the_command_is_asked_within_a_bound(
    script: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chronyc").write_text(f'#!/bin/sh\n[ "$*" = "-c tracking" ] || exit 2\n{script}\n')
    (tmp_path / "chronyc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    began = time.monotonic()
    assert (environment.time_service(1.0 if script.startswith("exec") else 30.0) is not None) == told
    assert time.monotonic() - began < 30


def test_without_the_command_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.time_service() is None
