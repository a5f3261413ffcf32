"""The threshold files: read strictly, so that a slip of the pen is an error and never a limit that holds nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen

from perfgate.judge.limits import reach_of
from perfgate.model import (
    METRICS,
    PER_BROKER_METRICS,
    MetricInfo,
    PairRelation,
    Profile,
    RangeRelation,
    Relation,
    Threshold,
    Validity,
    metric_info,
)
from perfgate.model.errors import ConfigurationError
from perfgate.model.structured import Positive, shallow, strict, structured, toml_of

MOST_RUNS = 1000
LARGEST_REACH, LARGEST_LATENCY_REACH = 0.9, 9.0
"""A limit of a tenth of the baseline is as good as none; more noise than that needs more runs, not a wider limit. So is
one of ten times a latency, whose p99 scatters more than a mean does."""
RELATIONS_FILE = "relations.toml"
Text = Annotated[str, MinLen(1), "must be a text"]
Fact = Annotated[str | int | None, "must be a string or a whole number"]
Runs = Annotated[int, Ge(0), Le(MOST_RUNS), f"must be a whole number up to {MOST_RUNS}"]
UNDER_TEST = "kafka"
"""The fact that a profile is not picked by: a new Kafka is what the stored figures are there to be held against."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@strict
class _Facts:
    """Table [profile]: what a run must be like, besides the description."""

    description: Fact = None
    target: Fact
    cluster: Fact = None
    cores: Fact = None
    cpu_model: Fact = None
    tier: Fact = None
    driver: Fact = None
    kafka: Fact = None

    def __post_init__(self) -> None:
        if self.target == "brokers" and self.cluster is None:
            raise ConfigurationError("of target brokers needs cluster, the name that the target file gives its cluster")


@strict
class _Canary:
    deflate_mib_per_s: Positive | None = None
    loopback_per_s: Positive | None = None


@strict
class _Entry:
    """What stands beside a metric in the table of a scenario."""

    baseline: Positive
    tolerance: Annotated[float, Gt(0), Lt(1), "must be a positive number below 1; 0.1 means 10 %"]
    spread: Annotated[float, Ge(0), "must be a positive number, or 0"] = 0.0
    runs: Runs = 0
    anchor: Positive | None = None

    def __post_init__(self) -> None:
        if self.spread and self.runs < 2:
            raise ConfigurationError(f"runs = {self.runs} must be two or more where a spread stands")


@strict
class _Pair:
    """A relation of two scenarios as its table, or that of its [<family>.<name>.shared_cores], states it."""

    claim: Text
    metric: Text
    of: Text
    over: Text
    at_least: Positive
    at_most: Positive
    source: Text
    valid: Validity

    def __post_init__(self) -> None:
        if self.at_most <= self.at_least:
            raise ConfigurationError(f"at_most = {self.at_most:g} must be above at_least = {self.at_least:g}")


@strict
class _Range:
    """A relation over a range, whose `over` is the scenarios in their order: see :class:`RangeRelation`."""

    claim: Text
    metric: Text
    over: Annotated[tuple[Text, ...], MinLen(3), "must be a list of three scenarios or more, in their order"]
    rises_to: Text | None = None
    falls_to: Text | None = None
    at_least: Positive | None = None
    step_at_least: Positive | None = None
    at_most: Positive | None = None
    flat_within: Positive | None = None
    source: Text
    valid: Validity

    def __post_init__(self) -> None:
        if len(set(self.over)) < len(self.over):
            raise ConfigurationError(f"over = {list(self.over)} names a scenario twice")
        if self.rises_to and self.falls_to:
            raise ConfigurationError("has rises_to and falls_to: leave one out")
        bounds = {"at_least": self.at_least, "step_at_least": self.step_at_least, "at_most": self.at_most}
        if self.turn is None:
            if self.flat_within is None:
                raise ConfigurationError("has no shape; legal: rises_to or falls_to, flat_within, or both")
            if stated := [key for key, value in bounds.items() if value is not None]:
                raise ConfigurationError(f"{stated[0]} bounds a rise or fall: it needs rises_to or falls_to")
            return
        if self.turn not in self.over[1:]:
            legal = ", ".join(self.over[1:])
            raise ConfigurationError(f"{'rises' if self.rises_to else 'falls'}_to = {self.turn!r}; legal: {legal}")
        if (self.flat_within is None) is (self.turn != self.over[-1]):
            wrong = "lacks the key 'flat_within': what" if self.flat_within is None else "has flat_within, but nothing"
            raise ConfigurationError(f"{wrong} comes after {self.turn}")
        if self.step_at_least is None or self.at_most is None:
            raise ConfigurationError(f"lacks the key {'step_at_least' if self.step_at_least is None else 'at_most'!r}")
        if self.at_most <= max(self.step_at_least, 1):
            raise ConfigurationError(f"at_most = {self.at_most:g} must be above 1 and step_at_least")
        if self.at_least is not None and not self.step_at_least <= self.at_least < self.at_most:
            raise ConfigurationError(f"at_least = {self.at_least:g} must lie from step_at_least to below at_most")

    @property
    def turn(self) -> str | None:
        """The scenario up to which the metric rises or falls."""
        return self.rises_to or self.falls_to


CANARY_KEYS = tuple(one.name for one in fields(_Canary))


def load_profiles(folder: Path) -> dict[str, Profile]:
    """Return every profile in `folder` by name, that is by file name. Raises ConfigurationError."""
    if not folder.is_dir():
        raise ConfigurationError(f"thresholds folder {folder} does not exist")
    return {path.stem: load_profile(path) for path in sorted(folder.glob("*.toml")) if path.name != RELATIONS_FILE}


def load_profile(path: Path) -> Profile:
    """Return the profile in `path`. Raises ConfigurationError naming file, table and key."""
    tables = toml_of(path, str(path))
    if "profile" not in tables:
        raise ConfigurationError(f"{path}: table [profile] is missing; it says what the thresholds are valid for")
    facts = shallow(structured(_Facts, _table(path, "profile", tables.pop("profile")), f"{path}: [profile]"))
    canary = shallow(structured(_Canary, _table(path, "canary", tables.pop("canary", {})), f"{path}: [canary]"))
    thresholds = {name: _scenario(path, name, _table(path, name, body)) for name, body in tables.items()}
    return Profile(
        name=path.stem,
        facts={k: str(v) for k, v in facts.items() if v is not None and k != "description"},
        thresholds=thresholds,
        path=str(path),
        canary={k: v for k, v in canary.items() if v is not None},
    )


def load_relations(path: Path) -> tuple[Relation, ...]:
    """Return the relations in `path`, tables [<family>.<name>]. Raises ConfigurationError naming table and key."""
    return tuple(
        _relation(path, f"{family}.{short}", entry)
        for family, body in toml_of(path, str(path)).items()
        for short, entry in _table(path, family, body).items()
    )


def _relation(path: Path, table: str, values: object) -> Relation:
    """Return one relation; its table [<family>.<name>.shared_cores] states what differs where cores are shared."""
    where, own = f"{path}: [{table}]", _table(path, table, values)
    instead, shared_cores = own.pop("shared_cores", None), None
    kind: type[_Range | _Pair] = _Range if isinstance(own.get("over"), list) else _Pair
    stated = structured(kind, own, where)
    if instead is not None:
        changes = _table(path, f"{table}.shared_cores", instead)
        legal = [one.name for one in fields(kind) if one.name != "valid"]
        for key in changes:
            if key not in legal:
                raise ConfigurationError(
                    f"{path}: [{table}.shared_cores] has unknown key {key!r}; legal: {', '.join(legal)}"
                )
        shared_cores = _relation(path, f"{table}.shared_cores", {**own, **changes, "valid": "any"})
    family, short = table.split(".")[:2]
    metric = _metric(where, stated.metric)
    found: dict[str, Any] = {
        **shallow(stated),
        "name": f"{family}-{short}",
        "family": family,
        "metric": metric,
        "shared_cores": shared_cores,
    }
    if isinstance(stated, _Pair):
        return PairRelation(**found)
    rises, falls, over = found.pop("rises_to"), found.pop("falls_to"), found.pop("over")
    turn = over.index(stated.turn) + 1 if stated.turn else 1
    for key in ("step_at_least", "at_most", "flat_within"):
        found[key] = found[key] or 0.0  # of a part that the shape has not
    goes: Literal["rises", "falls"] | None = "rises" if rises else "falls" if falls else None
    return RangeRelation(**found, goes=goes, leg=over[:turn], flat=over[turn:])


def largest_reach(metric: str) -> float:
    """Return how far a limit may lie from its baseline, as a share of it, however large the noise is."""
    return LARGEST_LATENCY_REACH if metric.partition(".")[0].endswith("latency_ms") else LARGEST_REACH


def profile_facts(
    target: Mapping[str, object], environment: Mapping[str, object], tier: Mapping[str, object], driver: str
) -> dict[str, str]:
    """Return the facts of a run that a profile states; `kafka` is major.minor.

    Real brokers are told apart by the `cluster` that their target file names: they are not of the suite's machine.
    """
    kafka = str(target["kafka_version"])
    return {
        "target": str(target["kind"]),
        **({"cluster": str(target["name"])} if target["kind"] == "brokers" else {}),
        "cores": str(environment["cores"]),
        "cpu_model": str(environment["cpu_model"]),
        "tier": str(tier["name"]),
        "driver": driver,
        "kafka": ".".join(kafka.split(".")[:2]),
    }


def match_profile(profiles: Mapping[str, Profile], facts: Mapping[str, str]) -> Profile | None:
    """Return the one profile whose facts hold, or None; of several the one of the run's Kafka line.

    Raises ConfigurationError when that leaves several, or none of those.
    """
    matching = [profile for profile in profiles.values() if not _differing(profile, facts)]
    if len(matching) > 1:
        same = [profile for profile in matching if profile.facts.get(UNDER_TEST) == facts.get(UNDER_TEST)]
        if len(same) != 1:
            names = ", ".join(sorted(p.name for p in matching))
            raise ConfigurationError(
                f"several profiles match this target and machine: {names}; name one with --profile"
            )
        return same[0]
    return matching[0] if matching else None


def all_but_one(profiles: Mapping[str, Profile], facts: Mapping[str, str]) -> list[tuple[Profile, str]]:
    """Return the profiles of this kind of target that would match but for one fact, each with that fact's name."""
    differing = [(profile, _differing(profile, facts)) for profile in profiles.values()]
    return [(profile, keys[0]) for profile, keys in differing if len(keys) == 1 and keys != ["target"]]


def _differing(profile: Profile, facts: Mapping[str, str]) -> list[str]:
    """Return the facts that keep the profile from being picked, by name."""
    return [key for key, value in profile.facts.items() if key != UNDER_TEST and facts.get(key) != value]


def named_profile(profiles: Mapping[str, Profile], name: str) -> Profile:
    """Return the profile called `name`. Raises ConfigurationError with the names there are."""
    if name not in profiles:
        raise ConfigurationError(f"unknown profile {name!r}; legal: {', '.join(sorted(profiles)) or '(none stored)'}")
    return profiles[name]


def _table(path: Path, name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: {name} = {value!r} must be a table [{name}]")
    return dict(value)


def _scenario(path: Path, scenario: str, body: Mapping[str, Any]) -> tuple[Threshold, ...]:
    if not NAME.fullmatch(scenario):
        raise ConfigurationError(f"{path}: [{scenario}] is not a scenario name; those are written like batch-16k")
    thresholds = []
    for metric, entry in body.items():
        where = f"{path}: [{scenario}]"
        info = _metric(where, metric)
        values = structured(_Entry, _table(path, f"[{scenario}] {metric}", entry), f"{where} {metric}")
        reach = min(largest_reach(info.name), reach_of(values.tolerance, values.spread, values.runs))
        found = {**shallow(values), "scenario": scenario, "metric": info, "reach": reach, "source": path.name}
        thresholds.append(Threshold(**found))
    return tuple(thresholds)


def _metric(where: str, name: str) -> MetricInfo:
    info = metric_info(name)
    if info is None:
        legal = ", ".join([*METRICS, *(f"{stem}.<broker id>" for stem in PER_BROKER_METRICS)])
        raise ConfigurationError(f"{where} names unknown metric {name!r}; legal: {legal}")
    return info
