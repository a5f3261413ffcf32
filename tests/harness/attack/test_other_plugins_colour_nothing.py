"""Switches, plugins and markers of pytest colour no run: what they skip, repeat or leave out is not green."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS, Finished

RECORDED = Path("tests/harness/data/run.json")
FAMILY = ("--family", "batch-size")
SKIPS = (
    "import pytest\n\n\ndef pytest_runtest_setup(item):\n    if 'batch-1k' in item.name:\n        pytest.skip('why')\n"
)
EXPECTS_FAILURE = (
    "import pytest\n\n\ndef pytest_runtest_setup(item):\n    item.add_marker(pytest.mark.xfail(reason='known'))\n"
)
LEAVES_OUT = (
    "import pytest\n\n\n@pytest.hookimpl(trylast=True)\ndef pytest_collection_modifyitems(config, items):\n"
    "    out = [one for one in items if one.name.endswith('[batch-1k]')]\n"
    "    items[:] = [one for one in items if one not in out]\n{}"
)
REPEATS = (
    "import pytest\n\n\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item):\n    report = yield\n"
    "    if report.failed and report.when == 'call':\n        report.outcome = 'rerun'\n    return report\n\n\n"
    "def pytest_report_teststatus(report):\n    return ('rerun', 'R', 'RERUN') if report.outcome == 'rerun' else None\n"
)
ENDS_GREEN = "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
EXITS = "import pytest\n\n\ndef pytest_runtest_teardown(item):\n    pytest.exit('enough', returncode=0)\n"


@pytest.fixture
def raised(tmp_path: Path) -> Path:
    """Return thresholds that the recorded batch-1k does not keep."""
    folder = tmp_path / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, folder)
    path = folder / "embedded-2c.toml"
    pattern = r"(\[batch-1k\][^\[]*?records_per_s = \{ ?baseline = )[\d.]+"
    path.write_text(re.sub(pattern, r"\g<1>90000", path.read_text()))
    return folder


def run(tmp_path: Path, *arguments: str, plugin: str, **environment: str) -> Finished:
    """Judge the recorded run again, with this text as a plugin of pytest."""
    given = ("-p", "tests.harness.foreign", *FAMILY, *arguments)
    return gate(tmp_path / "results", f"--replay={RECORDED}", *given, environment={"FOREIGN": plugin, **environment})


@pytest.mark.parametrize(
    "switch",
    [
        "--benchmark-skip",
        "--benchmark-only",
        "--benchmark-disable",
        "--benchmark-cprofile=tottime",
        "--benchmark-only --benchmark-disable",
    ],
)
def test_switches_of_pytest_benchmark_change_no_verdict(tmp_path: Path, raised: Path, switch: str) -> None:
    """--benchmark-skip made a red scenario a skip, and the run green; --benchmark-cprofile made green ones fail."""
    done = gate(
        tmp_path / "red",
        f"--replay={RECORDED}",
        f"--thresholds={raised}",
        *FAMILY,
        environment={"PYTEST_ADDOPTS": switch},
    )
    assert done.code == done.run["exit_code"] == 1, done.output
    assert done.allure["batch-1k"]["status"] == "failed"
    assert done.allure["batch-16k"]["status"] == "passed"
    green = gate(tmp_path / "green", f"--replay={RECORDED}", *FAMILY, *switch.split())
    assert green.code == 0, green.output
    assert "a report could not be written" not in green.output


def test_the_usual_recipe_of_pytest_benchmark_writes_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "made" / "out.json"
    done = gate(tmp_path / "results", f"--replay={RECORDED}", *FAMILY, "--benchmark-only", f"--benchmark-json={path}")
    assert done.code == 0, done.output
    names = {one["name"] for one in json.loads(path.read_text())["benchmarks"]}
    assert names == {"test_scenario[batch-1k]", "test_scenario[batch-16k]"}


@pytest.mark.parametrize(
    ("plugin", "code", "words"),
    [
        (SKIPS, 6, "something outside the gate kept it from running: why"),
        (EXPECTS_FAILURE, 1, "RED: judged "),
        (LEAVES_OUT.format(""), 6, "batch-1k: something outside the gate kept it from running: a plugin left it out"),
        (LEAVES_OUT.format("    config.hook.pytest_deselected(items=out)\n"), 6, "a plugin left it out"),
        (REPEATS, 1, "RED: judged "),
        (ENDS_GREEN, 1, "RED: judged "),
        (EXITS, 1, "RED: judged "),
    ],
)
def test_a_plugin_makes_a_red_scenario_no_green_run(
    tmp_path: Path, raised: Path, plugin: str, code: int, words: str
) -> None:
    done = run(tmp_path, f"--thresholds={raised}", plugin=plugin)
    assert done.code == done.run["exit_code"] == code, done.output
    assert words in done.output
    assert "GREEN" not in done.output
    assert done.run["scenarios"][0]["name"] != "batch-1k" or done.run["scenarios"][0]["verdict"] == "REGRESSED"


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (SKIPS, "something outside the gate kept it from running: why"),
        (EXITS, "the run stopped before it"),
        (LEAVES_OUT.format(""), "a plugin left it out"),
    ],
)
def test_what_a_plugin_kept_from_running_is_undecided(tmp_path: Path, plugin: str, words: str) -> None:
    done = run(tmp_path, plugin=plugin)
    assert done.code == done.run["exit_code"] == 6, done.output
    assert words in done.run["cause"]
    assert words in done.output
    again = gate(tmp_path / "again", f"--replay={next((tmp_path / 'results').glob('2*/run.json'))}")
    assert again.code == 6, again.output


@pytest.mark.parametrize(
    "option", ["-k batch-16k", "--deselect tests/scenarios/test_scenarios.py::test_scenario[batch-1k]"]
)
def test_what_options_leave_out_is_not_missed(tmp_path: Path, option: str) -> None:
    done = gate(tmp_path / "results", f"--replay={RECORDED}", *FAMILY, *option.split())
    assert done.code == 0, done.output


OPTION = (
    "def pytest_addoption(parser, pluginmanager):\n    parser.addoption('--{1}')\n    parser.addini('{1}', 'a time')\n"
    "    pluginmanager.register(type('Plugin', (), {{}})(), '{0}')\n"
)
TIMEOUT, RERUNS = OPTION.format("timeout", "timeout"), OPTION.format("rerunfailures", "reruns")
MARKS = (
    "import pytest\n\n\ndef pytest_configure(config):\n    config.addinivalue_line('markers', '{0}: of a plugin')\n\n\n"
    "@pytest.hookimpl(trylast=True)\ndef pytest_collection_modifyitems(items):\n"
    "    items[0].add_marker(pytest.mark.{0}(5))\n"
)


@pytest.mark.parametrize(
    ("plugin", "arguments", "environment", "words"),
    [
        (TIMEOUT, ["--timeout=60"], {}, "pytest-timeout is in use (--timeout)"),
        (TIMEOUT, ["-o", "timeout=60"], {}, "pytest-timeout is in use (timeout in pytest.ini)"),
        (TIMEOUT, [], {"PYTEST_TIMEOUT": "60"}, "pytest-timeout is in use (PYTEST_TIMEOUT)"),
        (TIMEOUT + MARKS.format("timeout"), [], {}, "pytest-timeout is in use (a marker of test_"),
        (RERUNS, ["--reruns=2"], {}, "pytest-rerunfailures is in use (--reruns)"),
        (RERUNS, ["-o", "reruns=2"], {}, "pytest-rerunfailures is in use (reruns in pytest.ini)"),
        (RERUNS + MARKS.format("flaky"), [], {}, "pytest-rerunfailures is in use (a marker of test_"),
        ("", [], {"PYTEST_ADDOPTS": "--benchmark-compare-fail=mean:5%"}, "--benchmark-compare-fail judges"),
    ],
)
def test_what_ends_or_repeats_tests_is_refused(
    tmp_path: Path, plugin: str, arguments: list[str], environment: dict[str, str], words: str
) -> None:
    done = run(tmp_path, *arguments, plugin=plugin, **environment)
    assert done.code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("plugin", "arguments", "environment"),
    [
        (TIMEOUT, [], {}),
        (TIMEOUT, ["--timeout=0", "-o", "timeout=60"], {"PYTEST_TIMEOUT": "60"}),
        (RERUNS, ["--reruns=0", "-o", "reruns=2"], {}),
    ],
    ids=["not asked", "switched off", "none"],
)
def test_a_plugin_that_was_not_asked_to_act_is_in_nobodys_way(
    tmp_path: Path, plugin: str, arguments: list[str], environment: dict[str, str]
) -> None:
    """Nothing but its removal from pytest.ini helped: the option that switches it off for a run did not."""
    done = run(tmp_path, *arguments, plugin=plugin, **environment)
    assert done.code == 0, done.output


@pytest.mark.parametrize(
    "name", ["xfail", "skip", "skipif", "timeout", "flaky", "usefixtures", "parametrize", "filterwarnings", "slow"]
)
def test_a_family_named_like_a_marker_that_something_acts_on_is_refused(tmp_path: Path, name: str) -> None:
    """An own family "xfail" made each of its red scenarios an expected failure."""
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom perfgate.model.catalogue import Family\n"
        "from perfgate.catalogue.bases import PAPER\n"
        f"row = replace(PAPER, name='mine', families=({name!r},))\n"
        f"FAMILIES = (Family(name={name!r}, about='mine', scenarios=(row,)),)\n"
    )
    done = gate(tmp_path / "results", f"--scenarios={tmp_path}", "--list-scenarios")
    assert done.code == 2, done.output
    assert f"a family cannot be named {name!r}" in done.output
