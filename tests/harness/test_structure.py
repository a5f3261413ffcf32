"""The import rule, and that a scenario file stays declarative."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("systems", "metrics", "judge")
PURE = (
    "perfgate/model/declared.py",
    "perfgate/model/measured.py",
    "perfgate/model/judged.py",
    "perfgate/model/histogram.py",
    "perfgate/experiment/assembly.py",
    "perfgate/load/schedule.py",
    "perfgate/load/turns.py",
    "perfgate/load/steady.py",
    "perfgate/experiment/validity.py",
    "perfgate/load/payload.py",
    "perfgate/load/checks.py",
    "perfgate/systems/kafka/load/official.py",
    "perfgate/model/load.py",
    "perfgate/model/summary.py",
    "perfgate/metrics/health.py",
    "perfgate/judge/rules.py",
    "perfgate/judge/statistics.py",
    "perfgate/judge/messages.py",
    "perfgate/judge/thresholds.py",
    "perfgate/judge/limits.py",
    "perfgate/judge/noise.py",
    "perfgate/judge/compare/sequential.py",
    "perfgate/judge/compare/comparisons.py",
    "perfgate/judge/compare/advice.py",
)
CLIENTS = {"pytest", "confluent_kafka", "testcontainers", "allure"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("part", PARTS)
def test_the_parts_never_import_one_another(part: str) -> None:
    others = tuple(f"perfgate.{other}" for other in PARTS if other != part)
    for path in (ROOT / "perfgate" / part).rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith(others)], path


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_import_neither_pytest_nor_a_kafka_client(module: str) -> None:
    path = ROOT / module
    assert not CLIENTS.intersection(name.partition(".")[0] for name in imports(path))


def test_the_model_imports_nothing_of_the_suite() -> None:
    for path in (ROOT / "fixtures" / "model").glob("*.py"):
        assert not [n for n in imports(path) if n.startswith("fixtures") and not n.startswith("perfgate.model")]


def test_scenario_bodies_have_no_logic_of_their_own() -> None:
    forbidden = (ast.For, ast.While, ast.If, ast.Try, ast.With, ast.IfExp)
    for path in (ROOT / "tests" / "scenarios").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, forbidden), f"{path}: line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.FunctionDef):
                assert len(node.body) <= 4, f"{path}: {node.name}"


def test_no_fixed_port_and_no_hidden_environment_read_in_scenarios() -> None:
    for path in (ROOT / "tests" / "scenarios").glob("*.py"):
        assert "os" not in imports(path)
