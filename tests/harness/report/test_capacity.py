"""The capacity sheet: its formulas, how far it goes, and what it says where it cannot."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model.command import command_line
from perfgate.model.errors import ConfigurationError
from perfgate.report.capacity import (
    BELOW_KNEE,
    CPU_SHARE,
    MOST_BROKERS,
    Measured,
    Wanted,
    capacity,
    measured_of,
    sheet_text,
)
from perfgate.report.results import load_run
from tests.harness.build import flaw_entry
from tests.harness.build.recorded import RECORDED
from tests.harness.run_gate import ROOT

HERE = Measured(knee_records_per_s=30_000, cpu_us_per_record=60, brokers=3, record_bytes=1000, replicas=3)
ASKED = Wanted(rate=20_000, record_bytes=1000, replicas=3, days=7, bandwidth_mb_per_s=50, cores=2)


def test_a_sheet_by_hand() -> None:
    found = capacity(ASKED, HERE)
    assert found.disk_bytes == pytest.approx(20_000 * 86_400 * 1000 * 3 * 7 * 1.1)
    assert (found.in_bytes_per_s, found.replication_bytes_per_s, found.out_bytes_per_s) == (20e6, 40e6, 20e6)
    assert found.cpu_cores == pytest.approx(1.2)
    assert found.rate_brokers == math.ceil(20_000 / (0.9 * 10_000)) == 3
    assert found.cpu_brokers == math.ceil(1.2 / (CPU_SHARE * 2)) == 1
    assert found.bandwidth_brokers == math.ceil(60e6 / 50e6) == 2
    assert (found.brokers, found.reach) == (4, 1.0)


RATES = st.floats(1, 90_000)
ASKS = st.builds(
    Wanted,
    rate=RATES,
    record_bytes=st.integers(500, 2000),
    replicas=st.integers(1, 3),
    days=st.floats(0.01, 365),
    compression=st.floats(0.05, 1),
    reads=st.integers(0, 5),
    bandwidth_mb_per_s=st.none() | st.floats(100, 2000),
    cores=st.none() | st.integers(1, 64),
)


@given(ASKS, st.floats(0.1, 1))
def test_less_never_needs_more(asked: Wanted, share: float) -> None:
    try:
        whole = capacity(asked, HERE)
    except ConfigurationError:
        return  # beyond its reach
    part = capacity(replace(asked, rate=asked.rate * share), HERE)
    assert part.brokers <= whole.brokers
    assert part.disk_bytes == pytest.approx(whole.disk_bytes * share)


@given(ASKS)
def test_every_limit_is_kept_with_one_broker_down(asked: Wanted) -> None:
    try:
        found = capacity(asked, HERE)
    except ConfigurationError:
        return
    left = found.brokers - 1
    assert left >= asked.replicas
    assert left <= MOST_BROKERS * HERE.brokers
    copies = asked.replicas / HERE.replicas
    work = copies * max(1, asked.record_bytes / HERE.record_bytes)
    assert asked.rate * work / left <= BELOW_KNEE * HERE.knee_records_per_s / HERE.brokers * (1 + 1e-9)
    if asked.cores:
        assert found.cpu_cores / left <= CPU_SHARE * asked.cores * (1 + 1e-9)
    if asked.bandwidth_mb_per_s:
        for direction in (found.in_bytes_per_s, found.out_bytes_per_s):
            assert (direction + found.replication_bytes_per_s) / left <= asked.bandwidth_mb_per_s * 1e6 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"record_bytes": 2001}, "records of 2,001 bytes are 2 x those measured (1,000 bytes); a sheet reaches 2 x"),
        ({"record_bytes": 499}, "records of 499 bytes are 2 x those measured"),
        ({"rate": 120_000}, "14 brokers are 4.67 x the 3 that were measured; a sheet reaches 4 x"),
    ],
)
def test_nothing_is_said_beyond_its_reach(change: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        capacity(replace(ASKED, **change), HERE)
    assert words in str(raised.value)


def recorded(tmp_path: Path, **metrics: float) -> Path:
    """Return the folder of the recorded run as if acks-all had searched for its knee."""
    document = json.loads(RECORDED.read_text())
    (entry,) = (one for one in document["scenarios"] if one["name"] == "acks-all")
    for name, value in metrics.items():
        entry["metrics"][name] = {**entry["metrics"]["records_per_s"], "value": value}
    (tmp_path / "run.json").write_text(json.dumps(document))
    return tmp_path


def sheet(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "perfgate", "capacity", *arguments, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


OPTIONS = ("--rate", "4000", "--size", "1024", "--replicas", "3", "--retention", "7d")


def test_the_command_prints_the_sheet_with_its_formulas(tmp_path: Path) -> None:
    folder = recorded(tmp_path, knee_records_per_s=6000.0)
    done = sheet(folder, *OPTIONS, "--cores", "2", "--bandwidth", "100")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 brokers: 3 carry the load, and one may be down.")
    assert "rate         3  4,000 records/s / (0.9 x the knee of 6,000 records/s / 3 brokers)" in done.stdout
    assert "x 86,400 s x 1,024 bytes x 3 replicas x 7 days x 1 (compression) x 1.1" in done.stdout
    assert "The sheet goes 1 x as far" in done.stdout
    assert "The clients shared the cores of the brokers there" in done.stdout
    short = sheet(folder, *OPTIONS).stdout
    assert "--cores N of a broker" in short
    assert "--bandwidth MB/s of a broker" in short


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rate", "fast"), "--rate 'fast' must be records/s, above 0"),
        (("--rate", "nan"), "--rate 'nan' must be"),
        (("--size", "10.5"), "--size '10.5' must be"),
        (("--replicas", "0"), "--replicas '0' must be"),
        (("--retention", "7"), "--retention '7' must be a time, as in 12h, 7d or 2w"),
        (("--scenario", "batch-1k"), "has no sound knee of 'batch-1k'; it has acks-all"),
    ],
)
def test_a_slip_is_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = sheet(recorded(tmp_path, knee_records_per_s=6000.0), *OPTIONS, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_run_without_a_knee_or_cpu_says_so(tmp_path: Path) -> None:
    done = sheet(recorded(tmp_path), *OPTIONS)
    assert (done.returncode, done.stdout) == (2, "")
    measures = command_line("gate", "--family", "rate-ramp", "--rounds", "2")
    assert f"measured no knee; one that does: {measures}" in done.stderr
    document = load_run(recorded(tmp_path, knee_records_per_s=6000.0) / "run.json")
    for entry in document["scenarios"]:
        entry["metrics"].pop("broker_cpu_us_per_record", None)
    with pytest.raises(ConfigurationError, match="could not read the brokers' CPU"):
        measured_of(document)
    missing = sheet(tmp_path / "nowhere", *OPTIONS)
    assert missing.returncode == 2
    assert "no such file" in missing.stderr


def test_a_run_of_pulsar_makes_no_sheet_of_kafkas_brokers(tmp_path: Path) -> None:
    document = load_run(recorded(tmp_path, knee_records_per_s=6000.0) / "run.json")
    document["target"]["system"] = "pulsar"
    with pytest.raises(ConfigurationError, match="is of Pulsar, where brokers carry the rate and bookies the copies"):
        measured_of(document)


def test_other_replicas_than_measured_are_said() -> None:
    found = capacity(replace(ASKED, replicas=2), HERE)
    text = sheet_text(replace(ASKED, replicas=2), HERE, found, scenario="knee", run="r", shares_cores=False)
    assert "Not measured with 2 replicas" in text
    assert "x 2/3 replicas" in text


def test_longer_records_than_measured_need_more_brokers_and_shorter_ones_no_fewer() -> None:
    twice, half = replace(ASKED, record_bytes=2000), replace(ASKED, record_bytes=500)
    asked, longer, shorter = (capacity(one, HERE) for one in (ASKED, twice, half))
    assert (asked.rate_brokers, longer.rate_brokers, shorter.rate_brokers) == (3, 5, 3)
    assert longer.cpu_cores == pytest.approx(2 * asked.cpu_cores) == pytest.approx(2 * shorter.cpu_cores)
    text = sheet_text(twice, HERE, longer, scenario="knee", run="r", shares_cores=False)
    assert "20,000 records/s x 2,000/1,000 bytes / (" in text
    assert "Not measured with records of 2,000 bytes" in text


def test_a_knee_that_the_generator_bounded_is_not_gone_by(tmp_path: Path) -> None:
    document = load_run(recorded(tmp_path, knee_records_per_s=6000.0) / "run.json")
    (entry,) = (one for one in document["scenarios"] if one["name"] == "acks-all")
    why = "at 6,600 records/s the generator was the limit: sent late"
    entry["rounds"][1]["flaws"] = [flaw_entry(why, metrics=("knee_records_per_s",))]
    with pytest.raises(ConfigurationError, match=f"has no sound knee of 'acks-all': {why}"):
        measured_of(document)
    with pytest.raises(ConfigurationError, match="has no sound knee of 'acks-all'"):
        measured_of(document, "acks-all")
