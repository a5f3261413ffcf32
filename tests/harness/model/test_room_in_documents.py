"""Disk, bytes and hours that the documents state are those that runs ask for."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from perfgate.catalogue.kafka import FAMILIES
from perfgate.catalogue.pulsar import FAMILIES as PULSAR
from perfgate.fixtures.plan import expected_seconds
from perfgate.measure.plan import at_most, most_bytes_at_a_time, most_bytes_written
from perfgate.model import TIER_NAMES, Scenario
from perfgate.model.catalogue import Family
from perfgate.model.usual import TIERS
from perfgate.systems.kafka.attached.described import load_target
from tests.harness.run_gate import ROOT

TARGET = ROOT / "docs" / "kubernetes" / "target.yaml"


def rows(tier: str, families: Sequence[Family] = FAMILIES) -> list[Scenario]:
    measured = TIER_NAMES[: TIER_NAMES.index(tier) + 1]
    return [row for family in families for row in family.scenarios if row.tier in measured]


@pytest.mark.parametrize("of", ["docs/targets.md", "docs/kubernetes/target.yaml"])
def test_the_limits_of_an_example_do_for_the_smoke_tier(tmp_path: Path, of: str) -> None:
    """Whoever copied one was refused by every tier."""
    path = tmp_path / "target.toml"
    if of.endswith(".md"):
        examples = re.findall(r"```toml\n(.*?)```", (ROOT / of).read_text(), re.DOTALL)
        (text,) = [one for one in examples if one.startswith("name = ")]
        path.write_text(re.sub(r'(?m)^"(sasl\..+|security\.protocol|ssl\..+)".*$', "", text))
    else:
        (config,) = [one for one in yaml.safe_load_all(TARGET.read_text()) if one["kind"] == "ConfigMap"]
        path.write_text(config["data"]["target.toml"])
    limits = load_target(path, lambda stores: {}).limits
    capped = [at_most(row, limits.bytes_per_s, limits.read_bytes_per_s) for row in rows("smoke")]
    assert most_bytes_written(capped, TIERS["smoke"], own=False) <= limits.total_bytes


def test_the_disk_that_the_first_page_asks_for_is_what_a_run_does() -> None:
    """The catalogue had grown: a runner with as much as the page allowed was refused every night."""
    stated = dict(re.findall(r"(\d+) GB\s\(([a-z0-9-]+)\)", (ROOT / "docs" / "first-run.md").read_text()))
    needed = {
        name: most_bytes_at_a_time(rows(name), tier.warmup_max_s + tier.window_s) / 1e9 for name, tier in TIERS.items()
    }
    assert {name: int(gb) for gb, name in stated.items()} == {name: math.ceil(gb) for name, gb in needed.items()}


@pytest.mark.parametrize("tier", TIER_NAMES)
def test_the_times_that_the_page_of_nights_names_are_what_runs_expect(tier: str) -> None:
    page = (ROOT / "docs" / "nightly.md").read_text()
    (line,) = re.findall(rf"^\| {tier} \|(.*)\|$", page, re.MULTILINE)
    kafka, pulsar, _ = (cell.strip() for cell in line.split("|"))
    for cell, found in ((kafka, rows(tier)), (pulsar, rows(tier, PULSAR))):
        count, number, unit = re.findall(r"^(\d+)(?: scenarios)?, ([\d.]+) (min|h)$", cell)[0]
        assert int(count) == len(found)
        seconds = expected_seconds(found, TIERS[tier])
        assert float(number) == pytest.approx(seconds / (3600 if unit == "h" else 60), rel=0.1)
