"""Brokers that got much worse are red by the whole gate, its confirmation run included; unchanged ones are not."""

import shutil
from pathlib import Path

import pytest

from benchmarks.worse_brokers import CASES, ROOT, UNCHANGED, Case, record_thresholds, run
from perfgate.model.judged import ExitCode

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def thresholds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thresholds that an unchanged run of this machine is the baseline of."""
    folder = tmp_path_factory.mktemp("thresholds")
    for name in ("relations.toml", "ratios.toml"):
        shutil.copy(ROOT / "perfgate" / "catalogue" / name, folder)
    record_thresholds([run(UNCHANGED, folder)], folder)
    return folder


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_brokers_that_got_much_worse_are_red(case: Case, thresholds: Path) -> None:
    found = run(case, thresholds)
    assert found["exit"] == ExitCode.RED, found


def test_unchanged_brokers_are_not_red(thresholds: Path) -> None:
    found = run(UNCHANGED, thresholds)
    assert found["exit"] in (ExitCode.GREEN, ExitCode.UNDECIDED), found
