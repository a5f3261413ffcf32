"""Strict parser for threshold files: a slip of the pen is an error, not a limit without effect."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen

from perfgate.judge.limits import reach_of
from perfgate.model import (
    METRICS,
    PER_BROKER_METRICS,
    MetricInfo,
    Profile,
    Published,
    RecordedPairs,
    Threshold,
    metric_info,
)
from perfgate.model.errors import ConfigurationError
from perfgate.model.structured import Positive, shallow, shared, strict, structured, toml_of
from perfgate.model.system import SYSTEM_NAMES, SYSTEMS, System, system_of, version_of

SHARE = "timed_out_share"
MOST_RUNS = 1000
ENOUGH_PAIRS = 5
"""Fewer recorded pairs of clusters show little of their scatter."""
LARGEST_REACH, LARGEST_LATENCY_REACH = 0.9, 9.0
"""A limit of a tenth of the baseline is as good as none; more noise than that needs more runs, not a wider limit. So is
a limit of ten times a latency, whose p99 scatters more than a mean does."""
RELATIONS_FILE, RATIOS_FILE = "relations.toml", "ratios.toml"
RELATIONS_FILES: Mapping[System, str] = {"kafka": RELATIONS_FILE, "pulsar": "relations-pulsar.toml"}
Text = Annotated[str, MinLen(1), "must be a text"]
Fact = Annotated[str | int | None, "must be a string or a whole number"]
Tolerance = Annotated[float, Gt(0), Lt(1), "must be a positive number below 1; 0.1 means 10 %"]
Runs = Annotated[int, Ge(0), Le(MOST_RUNS), f"must be a whole number up to {MOST_RUNS}"]
MACHINE = {"cores", "cpu_model"}
"""Facts of the machine that a run's load comes from."""
UNDER_TEST: tuple[System, ...] = SYSTEMS
"""The facts that a profile is not picked by: a new release is what the stored figures are to be compared with."""
CONDITIONS = ("target", "cluster", "brokers", "cores", "cpu_model", "tier", "driver")
"""The facts that a run must share with a profile that is picked for it."""
SHOWN_ALONE = ("description", "reference", "hardware")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@strict
class _Facts:
    """Table [profile]: the description, and the facts of the runs that it is for."""

    description: Fact = None
    reference: Annotated[bool, "must be true or false"] = False
    system: Literal["kafka", "pulsar"] | None = None
    hardware: Text | None = None
    target: Fact = None
    cluster: Fact = None
    brokers: Fact = None
    cores: Fact = None
    cpu_model: Fact = None
    tier: Fact = None
    driver: Fact = None
    kafka: Fact = None
    pulsar: Fact = None

    def __post_init__(self) -> None:
        if self.reference:
            if self.hardware is None:
                raise ConfigurationError("is a reference and lacks the key 'hardware', which its figures are of")
            if stated := [name for name in CONDITIONS if getattr(self, name) is not None]:
                raise ConfigurationError(f"is a reference, which no run matches: leave {stated[0]} out")
        elif self.target is None:
            raise ConfigurationError("lacks the key 'target'")
        if self.target == "brokers" and self.cluster is None:
            raise ConfigurationError("of target brokers needs cluster, the name that the target file gives its cluster")


@strict
class _Canary:
    deflate_mib_per_s: Positive | None = None
    loopback_per_s: Positive | None = None


@strict
class _Entry:
    """A metric's entry in a scenario's table; a published figure that `differs` in its settings judges nothing."""

    baseline: Positive
    """The median of the runs that the comment behind it has."""
    tolerance: Tolerance | None = None
    """The share by which a figure may be worse; more where `runs` runs scattered by `spread`."""
    spread: Annotated[float, Ge(0), "must be a positive number, or 0"] = 0.0
    """Standard deviation of these runs over their median."""
    runs: Runs = 0
    """How many they were."""
    anchor: Positive | None = None
    """The best baseline so far; only a stated reason makes it worse."""
    rate: Positive | None = None
    """The rate (records/s) that was offered, where it came from a knee."""
    differs: Text | None = None
    """Of a published figure: what its settings differ in. It judges nothing."""

    def __post_init__(self) -> None:
        if (self.tolerance is None) is (self.differs is None):
            raise ConfigurationError(
                "lacks the key 'tolerance'"
                if self.differs is None
                else "differs from the scenario, so that nothing is held against it: leave tolerance out"
            )
        if self.spread and self.runs < 2:
            raise ConfigurationError(f"runs = {self.runs} must be two or more where a spread stands")


@strict
class _Pairs:
    """A metric's entry in [pairs.<scenario>]."""

    rounds_per_unit: Annotated[int, Ge(1), "must be a whole number from 1"]
    effects: Annotated[
        tuple[float, ...],
        MinLen(ENOUGH_PAIRS),
        f"must be a list of {ENOUGH_PAIRS} numbers or more, of each pair the logarithm of one side over the other",
    ]
    window_s: Positive | None = None
    declared: str = ""
    """A digest of the scenario as it was declared; empty: it was recorded without one."""


CANARY_KEYS = tuple(field.name for field in fields(_Canary))


def load_profiles(folder: Path) -> dict[str, Profile]:
    """Every profile by its file name. Raises ConfigurationError."""
    if not folder.is_dir():
        raise ConfigurationError(f"thresholds folder {folder} does not exist")
    others = (*RELATIONS_FILES.values(), RATIOS_FILE)
    return {path.stem: load_profile(path) for path in sorted(folder.glob("*.toml")) if path.name not in others}


def load_profile(path: Path) -> Profile:
    """The profile in `path`. Raises ConfigurationError naming file, table and key."""
    tables = toml_of(path, str(path))
    if "profile" not in tables:
        raise ConfigurationError(f"{path}: table [profile] is missing; it says what the thresholds are valid for")
    facts = shallow(structured(_Facts, as_table(path, "profile", tables.pop("profile")), f"{path}: [profile]"))
    canary = shallow(structured(_Canary, as_table(path, "canary", tables.pop("canary", {})), f"{path}: [canary]"))
    pairs = {name: _pairs(path, name, body) for name, body in as_table(path, "pairs", tables.pop("pairs", {})).items()}
    entries = {name: _entries(path, name, as_table(path, name, body)) for name, body in tables.items()}
    if facts["reference"] and pairs:
        raise ConfigurationError(f"{path}: is a reference, of which no pairs are recorded: leave [pairs] out")
    if not facts["reference"]:
        for name, stated in entries.items():
            if wrong := [info.name for info, entry in stated if entry.differs]:
                raise ConfigurationError(f"{path}: [{name}] {wrong[0]} has differs, which stands in a reference alone")
    judged = {name: [(info, entry) for info, entry in stated if not entry.differs] for name, stated in entries.items()}
    published = {
        name: tuple(
            Published(
                profile=path.stem,
                hardware=facts["hardware"],
                metric=info.name,
                value=entry.baseline,
                differs=entry.differs or "",
            )
            for info, entry in stated
        )
        for name, stated in entries.items()
        if facts["hardware"]
    }
    return Profile(
        name=path.stem,
        facts={k: str(v) for k, v in facts.items() if v is not None and k not in SHOWN_ALONE},
        thresholds={name: tuple(_threshold(name, *pair) for pair in held) for name, held in judged.items() if held},
        path=str(path),
        canary={k: v for k, v in canary.items() if v is not None},
        reference=facts["reference"],
        published=published,
        pairs=pairs,
    )


def published_of(profiles: Mapping[str, Profile], scenario: str, judged: Profile | None) -> tuple[Published, ...]:
    """The published figures of a scenario, except those of the profile that it is judged by."""
    others = (profile for profile in profiles.values() if judged is None or profile.name != judged.name)
    return tuple(figure for profile in others for figure in profile.published.get(scenario, ()))


def largest_reach(metric: str) -> float:
    """The largest share of its baseline by which a limit may be off, however large the noise is."""
    return LARGEST_LATENCY_REACH if "latency_ms." in metric else LARGEST_REACH


def for_one_look(threshold: Threshold) -> Threshold:
    """The threshold for a scenario without a confirmation run."""
    reach = reach_of(threshold.tolerance, threshold.spread, threshold.runs, looks=1)
    return replace(threshold, reach=max(threshold.reach, min(largest_reach(threshold.metric.name), reach)))


def profile_facts(
    target: Mapping[str, object], environment: Mapping[str, object], tier: Mapping[str, object], driver: str
) -> dict[str, str]:
    """The facts of a run that a profile states: of Kafka without a system, of real brokers with their file's name."""
    system, real = system_of(target), target["kind"] == "brokers"
    return {
        **({"system": system} if system != "kafka" else {}),
        "target": str(target["kind"]),
        **({"cluster": str(target["name"])} if real else {}),
        **({"brokers": str(target["brokers"])} if real and "brokers" in target else {}),
        "cores": str(environment["cores"]),
        "cpu_model": str(environment["cpu_model"]),
        "tier": str(tier["name"]),
        "driver": driver,
        system: ".".join(version_of(target).split(".")[:2]),
    }


def match_profile(profiles: Mapping[str, Profile], facts: Mapping[str, str]) -> Profile | None:
    """The profile whose facts hold, or None; of several that of the run's release. Raises ConfigurationError."""
    matching = [p for p in profiles.values() if matches(p, facts)]
    if len(matching) < 2:
        return matching[0] if matching else None
    same = [p for p in matching if all(p.facts.get(name) == facts.get(name) for name in UNDER_TEST)]
    if len(same) != 1:
        names = ", ".join(sorted(p.name for p in matching))
        raise ConfigurationError(f"several profiles match this target and machine: {names}; name one with --profile")
    return same[0]


def matches(profile: Profile, facts: Mapping[str, str]) -> bool:
    """Whether a run with these facts is of the profile's target and machine."""
    return not profile.reference and not _differing(profile, facts)


def all_but_one(profiles: Mapping[str, Profile], facts: Mapping[str, str]) -> list[tuple[Profile, str]]:
    """The profiles of this kind of target that match but for one fact, each with that fact's name."""
    differing = [(profile, _differing(profile, facts)) for profile in profiles.values() if not profile.reference]
    return [(profile, keys[0]) for profile, keys in differing if len(keys) == 1 and keys[0] not in ("target", "system")]


def differences(profile: Profile, facts: Mapping[str, str], among: Collection[str] | None = None) -> str:
    """The facts (`among` these) in which a run differs, as "tier nightly there, smoke here"."""
    return "; ".join(
        f"{key} {profile.facts.get(key, profile.system)} there, {facts.get(key) or 'unknown'} here"
        for key in _differing(profile, facts)
        if among is None or key in among
    )


def check_may_hold(profile: Profile, facts: Mapping[str, str], among: Collection[str] | None = None) -> None:
    """Raise ConfigurationError where figures of a run with these facts may not go into this profile."""
    if profile.reference:
        raise ConfigurationError(f"profile {profile.name} is a reference: no run replaces what was published elsewhere")
    if other := differences(profile, facts, among):
        raise ConfigurationError(
            f"profile {profile.name} is of other runs: {other}; name no profile, in the target file or beside "
            "--profile: theirs is then a file of its own"
        )


def _differing(profile: Profile, facts: Mapping[str, str]) -> list[str]:
    here = {"system": system_of(facts), **facts}
    stated = {"system": profile.system, **profile.facts}
    return [key for key, value in stated.items() if key not in UNDER_TEST and here.get(key) != value]


def named_profile(profiles: Mapping[str, Profile], name: str, system: System = "kafka") -> Profile:
    """The profile called `name`, of this system. Raises ConfigurationError with the names there are."""
    if name in profiles and profiles[name].system != system:
        raise ConfigurationError(
            f"profile {name} is of {SYSTEM_NAMES[profiles[name].system]}, and the run is of {SYSTEM_NAMES[system]}"
        )
    if name not in profiles:
        raise ConfigurationError(f"unknown profile {name!r}; legal: {', '.join(sorted(profiles)) or '(none stored)'}")
    return profiles[name]


def as_table(path: Path, name: str, value: object) -> dict[str, Any]:
    """The value if it is a table. Raises ConfigurationError."""
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: {name} = {value!r} must be a table [{name}]")
    return dict(value)


def _entries(path: Path, scenario: str, body: Mapping[str, Any]) -> list[tuple[MetricInfo, _Entry]]:
    if not NAME.fullmatch(scenario):
        raise ConfigurationError(f"{path}: [{scenario}] is not a scenario name; those are written like batch-16k")
    where = f"{path}: [{scenario}]"
    if SHARE in body:
        raise ConfigurationError(f"{where} {SHARE}: near 1 it hides how much less is taken; hold records_per_s instead")
    return [
        (known_metric(where, key), structured(_Entry, as_table(path, f"[{scenario}] {key}", entry), f"{where} {key}"))
        for key, entry in body.items()
    ]


def _pairs(path: Path, scenario: str, body: object) -> tuple[RecordedPairs, ...]:
    where = f"{path}: [pairs.{scenario}]"
    return tuple(
        RecordedPairs(
            metric=known_metric(where, metric).name,
            **shallow(structured(_Pairs, as_table(path, f"pairs.{scenario} {metric}", entry), f"{where} {metric}")),
        )
        for metric, entry in as_table(path, f"pairs.{scenario}", body).items()
    )


def _threshold(scenario: str, metric: MetricInfo, entry: _Entry) -> Threshold:
    assert entry.tolerance is not None
    reach = min(largest_reach(metric.name), reach_of(entry.tolerance, entry.spread, entry.runs))
    stated = {**shared(Threshold, entry), "rate": entry.rate or 0.0}
    return Threshold(scenario=scenario, metric=metric, reach=reach, **stated)


def known_metric(where: str, name: str) -> MetricInfo:
    """The metric of this name. Raises ConfigurationError."""
    info = metric_info(name)
    if info is None:
        legal = ", ".join([*METRICS, *(f"{stem}.<broker id>" for stem in PER_BROKER_METRICS)])
        raise ConfigurationError(f"{where} names unknown metric {name!r}; legal: {legal}")
    return info
