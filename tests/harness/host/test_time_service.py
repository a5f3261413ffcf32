"""What chrony says of a wall clock: recorded lines of `chronyc -c tracking` (chrony 4.3)."""

import time
from pathlib import Path

import pytest

from perfgate.host import environment as time_service

FOLLOWS = (
    "7F000001,127.0.0.1,9,1795499715.301914714,0.000000301,-0.000000036,0.000001998,0.008,-0.001,0.116,"
    "0.000001351,0.000002273,1.0,Normal\n"
)
JUST_STARTED = (
    "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,1.000000000,1.000000000,0.0,"
    "Not synchronised\n"
)


def test_the_bound_is_offset_and_dispersion_and_half_the_delay() -> None:
    found = time_service.parse_tracking(FOLLOWS)
    assert (found.stratum, found.synchronised) == (9, True)
    figures = (found.offset_ms, found.root_delay_ms, found.root_dispersion_ms, found.bound_ms)
    assert figures == pytest.approx((0.000301, 0.001351, 0.002273, 0.000301 + 0.002273 + 0.001351 / 2))
    behind = time_service.parse_tracking(FOLLOWS.replace("0.000000301", "-0.001000000"))
    assert (behind.offset_ms, behind.bound_ms) == pytest.approx((-1.0, 1 + 0.002273 + 0.001351 / 2))


def test_a_clock_that_follows_nothing_has_no_bound() -> None:
    found = time_service.parse_tracking(JUST_STARTED)
    assert (found.synchronised, found.bound_ms) == (False, None)


@pytest.mark.parametrize(
    "text",
    ["", "506 Cannot talk to daemon\n", FOLLOWS.replace(",Normal", ""), FOLLOWS.replace("0.000002273", "nan")],
    ids=["nothing", "no-daemon", "too-few-fields", "no-number"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="chronyc"):
        time_service.parse_tracking(text)


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
    monkeypatch.setattr(time_service, "ANSWER_S", 1.0 if script.startswith("exec") else 30.0)
    began = time.monotonic()
    assert (time_service.time_service() is not None) == told
    assert time.monotonic() - began < 30


def test_without_the_command_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert time_service.time_service() is None
