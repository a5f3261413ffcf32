"""The threshold files: read strictly, so that a slip of the pen is an error and never a limit that holds nothing."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from perfgate.judge.limits import reach_of
from perfgate.model import METRICS, PER_BROKER_METRICS, MetricInfo, Profile, Relation, Threshold, Validity, metric_info
from perfgate.model.errors import ConfigurationError

MOST_RUNS = 1000
LARGEST_REACH, LARGEST_LATENCY_REACH = 0.9, 9.0
"""A limit of a tenth of the baseline is as good as none; more noise than that needs more runs, not a wider limit. So is
one of ten times a latency, whose p99 scatters more than a mean does."""
RELATIONS_FILE = "relations.toml"
RELATION_KEYS = ("claim", "metric", "of", "over", "at_least", "at_most", "source", "valid")
ENTRY_KEYS = ("baseline", "tolerance", "spread", "runs", "anchor")
PROFILE_FACTS = ("target", "cluster", "cores", "cpu_model", "tier", "driver", "kafka")
UNDER_TEST = "kafka"
"""The fact that a profile is not picked by: a new Kafka is what the stored figures are there to be held against."""
CANARY_KEYS = ("deflate_mib_per_s", "loopback_per_s")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def load_profiles(folder: Path) -> dict[str, Profile]:
    """Return every profile in `folder` by name, that is by file name. Raises ConfigurationError."""
    if not folder.is_dir():
        raise ConfigurationError(f"thresholds folder {folder} does not exist")
    return {path.stem: load_profile(path) for path in sorted(folder.glob("*.toml")) if path.name != RELATIONS_FILE}


def load_profile(path: Path) -> Profile:
    """Return the profile in `path`. Raises ConfigurationError naming file, table and key."""
    tables = _read(path)
    if "profile" not in tables:
        raise ConfigurationError(f"{path}: table [profile] is missing; it says what the thresholds are valid for")
    facts = _table(path, "profile", tables.pop("profile"))
    _known(path, "[profile]", facts, ("description", *PROFILE_FACTS), required=("target",))
    for key, value in facts.items():
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ConfigurationError(f"{path}: [profile] {key} = {value!r} must be a string or a whole number")
    facts.pop("description", None)
    if facts["target"] == "brokers" and "cluster" not in facts:
        raise ConfigurationError(
            f"{path}: [profile] of target brokers needs cluster, the name that the target file gives its cluster"
        )
    canary = _canary(path, _table(path, "canary", tables.pop("canary", {})))
    thresholds = {name: _scenario(path, name, _table(path, name, body)) for name, body in tables.items()}
    return Profile(
        name=path.stem,
        facts={k: str(v) for k, v in facts.items()},
        thresholds=thresholds,
        path=str(path),
        canary=canary,
    )


def load_relations(path: Path) -> tuple[Relation, ...]:
    """Return the relations in `path`, tables [<family>.<name>]. Raises ConfigurationError naming table and key."""
    return tuple(
        _relation(path, family, short, _table(path, f"{family}.{short}", entry))
        for family, body in _read(path).items()
        for short, entry in _table(path, family, body).items()
    )


def _relation(path: Path, family: str, short: str, values: dict[str, Any]) -> Relation:
    """Return one relation; its table [<family>.<name>.shared_cores] states what differs where cores are shared."""
    where = f"[{family}.{short}]"
    own, shared = dict(values), values.get("shared_cores")
    own.pop("shared_cores", None)
    _known(path, where, own, RELATION_KEYS, required=RELATION_KEYS)
    return _stated_relation(path, f"{family}.{short}", family, own, _variant(path, family, short, own, shared))


def _variant(path: Path, family: str, short: str, own: Mapping[str, Any], shared: object) -> Relation | None:
    if shared is None:
        return None
    name = f"{family}.{short}.shared_cores"
    values = _table(path, name, shared)
    _known(path, f"[{name}]", values, tuple(key for key in RELATION_KEYS if key != "valid"), required=())
    return _stated_relation(path, name, family, {**own, **values, "valid": "any"}, None)


def _stated_relation(
    path: Path, table: str, family: str, values: Mapping[str, Any], shared: Relation | None
) -> Relation:
    where = f"[{table}]"
    for key in ("claim", "of", "over", "source"):
        if not isinstance(values[key], str) or not values[key]:
            raise ConfigurationError(f"{path}: {where} {key} = {values[key]!r} must be a text")
    if values["valid"] not in get_args(Validity):
        legal = ", ".join(get_args(Validity))
        raise ConfigurationError(f"{path}: {where} valid = {values['valid']!r} is not legal; legal: {legal}")
    at_least, at_most = (_positive(path, where, key, values[key]) for key in ("at_least", "at_most"))
    if at_most <= at_least:
        raise ConfigurationError(f"{path}: {where} at_most = {at_most:g} must be above at_least = {at_least:g}")
    return Relation(
        name="-".join(table.split(".")[:2]),
        family=family,
        claim=values["claim"],
        metric=_metric(path, where, values["metric"]),
        of=values["of"],
        over=values["over"],
        at_least=at_least,
        at_most=at_most,
        source=values["source"],
        valid=values["valid"],
        shared_cores=shared,
    )


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


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _table(path: Path, name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: {name} = {value!r} must be a table [{name}]")
    return dict(value)


def _known(
    path: Path, where: str, values: Mapping[str, Any], legal: tuple[str, ...], required: tuple[str, ...]
) -> None:
    for key in values:
        if key not in legal:
            raise ConfigurationError(f"{path}: {where} has unknown key {key!r}; legal: {', '.join(legal)}")
    for key in required:
        if key not in values:
            raise ConfigurationError(f"{path}: {where} lacks the key {key!r}")


def _canary(path: Path, values: Mapping[str, Any]) -> dict[str, float]:
    _known(path, "[canary]", values, CANARY_KEYS, required=())
    return {name: _positive(path, "[canary]", name, value) for name, value in values.items()}


def _scenario(path: Path, scenario: str, body: Mapping[str, Any]) -> tuple[Threshold, ...]:
    if not NAME.fullmatch(scenario):
        raise ConfigurationError(f"{path}: [{scenario}] is not a scenario name; those are written like batch-16k")
    thresholds = []
    for metric, entry in body.items():
        where = f"[{scenario}] {metric}"
        info = _metric(path, f"[{scenario}]", metric)
        values = _table(path, where, entry)
        _known(path, where, values, ENTRY_KEYS, required=("baseline", "tolerance"))
        tolerance = _positive(path, where, "tolerance", values["tolerance"])
        if tolerance >= 1:
            raise ConfigurationError(f"{path}: {where} tolerance = {tolerance:g} must be below 1; 0.1 means 10 %")
        spread = _positive(path, where, "spread", values["spread"]) if values.get("spread") else 0.0
        runs = values.get("runs", 0)
        if isinstance(runs, bool) or not isinstance(runs, int) or not 0 <= runs <= MOST_RUNS or (spread and runs < 2):
            raise ConfigurationError(
                f"{path}: {where} runs = {runs!r} must be a whole number up to {MOST_RUNS}, "
                "two or more where a spread stands"
            )
        thresholds.append(
            Threshold(
                scenario=scenario,
                metric=info,
                baseline=_positive(path, where, "baseline", values["baseline"]),
                tolerance=tolerance,
                spread=spread,
                runs=runs,
                reach=min(largest_reach(info.name), reach_of(tolerance, spread, runs)),
                source=path.name,
                anchor=_positive(path, where, "anchor", values["anchor"]) if "anchor" in values else None,
            )
        )
    return tuple(thresholds)


def _metric(path: Path, where: str, name: object) -> MetricInfo:
    info = metric_info(name) if isinstance(name, str) else None
    if info is None:
        legal = ", ".join([*METRICS, *(f"{stem}.<broker id>" for stem in PER_BROKER_METRICS)])
        raise ConfigurationError(f"{path}: {where} names unknown metric {name!r}; legal: {legal}")
    return info


def _positive(path: Path, where: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ConfigurationError(f"{path}: {where} {key} = {value!r} must be a positive number")
    return float(value)
