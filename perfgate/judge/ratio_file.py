"""ratios.toml: how much less than a reference, measured beside it, a run may reach. Read as strictly as thresholds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from perfgate.judge.thresholds import LARGEST_REACH, RATIOS_FILE, as_table, known_metric, largest_reach
from perfgate.model import Ratio
from perfgate.model.errors import ConfigurationError
from perfgate.model.structured import Positive, strict, structured, toml_of

DEFAULT = "default"


@strict
class _Bound:
    """What stands beside a metric."""

    at_least: Positive | None = None
    at_most: Positive | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratios:
    """What is held of every scenario, and what of some instead, by name and metric."""

    path: Path
    default: tuple[Ratio, ...]
    own: dict[str, tuple[Ratio, ...]]

    def of(self, scenario: str) -> tuple[Ratio, ...]:
        """Return what is held of the scenario: its own table goes before [default], metric by metric."""
        found = {ratio.metric.name: ratio for ratio in (*self.default, *self.own.get(scenario, ()))}
        return tuple(found.values())

    def check(self, known: Collection[str]) -> None:
        """Raise ConfigurationError when a table is of no scenario that there is."""
        for name in self.own:
            if name not in known:
                raise ConfigurationError(f"{self.path}: [{name}] is no scenario (nor is it [{DEFAULT}])")


def load_ratios(folder: Path) -> Ratios:
    """Return the ratios in `folder`. Raises ConfigurationError naming file, table and key."""
    path = folder / RATIOS_FILE
    tables = {name: _ratios(path, name, as_table(path, name, body)) for name, body in toml_of(path, str(path)).items()}
    default = tables.pop(DEFAULT, ())
    if not (default or tables):
        raise ConfigurationError(f"{path} states no ratio, so that nothing would be judged")
    return Ratios(path=path, default=default, own=tables)


def _ratios(path: Path, table: str, values: dict[str, object]) -> tuple[Ratio, ...]:
    found = []
    for name, body in values.items():
        where = f"{path}: [{table}] {name}"
        metric, bound = known_metric(where, name), structured(_Bound, as_table(path, f"{table}.{name}", body), where)
        key, other = ("at_least", "at_most") if metric.better == "higher" else ("at_most", "at_least")
        value = bound.at_least if key == "at_least" else bound.at_most
        if value is None or getattr(bound, other) is not None:
            raise ConfigurationError(f"{where} is better when it is {metric.better}: state {key}, and only that")
        reach = largest_reach(metric.name)
        legal = (1 - min(reach, LARGEST_REACH), 1.0) if key == "at_least" else (1.0, 1 + reach)
        if not legal[0] <= value <= legal[1]:
            more = (value > 1) == (key == "at_least")
            what = "asks for more than the reference reaches" if more else "is as good as no limit"
            raise ConfigurationError(
                f"{where}: {key} = {value:g} {what}; legal: {legal[0]:g} .. {legal[1]:g} times the reference's"
            )
        found.append(Ratio(metric=metric, limit=value, own=table != DEFAULT))
    return tuple(found)
