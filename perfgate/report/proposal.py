"""New thresholds from recorded runs, with the reason, written only with --accept: ``kafka-perf-gate thresholds``."""

from __future__ import annotations

import itertools
import math
import re
import statistics
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import tomlkit

from perfgate import catalogue
from perfgate.judge.faults.figures import TIMES_UNTIL
from perfgate.judge.faults.rules import THROUGHOUT
from perfgate.judge.limits import MOST_RUNS_WORTH_IT, noise_factor, reach_of, runs_needed
from perfgate.judge.phrases import number, percent
from perfgate.judge.rates import most_off
from perfgate.judge.statistics import MEDIAN_ERROR_FACTOR
from perfgate.judge.thresholds import (
    CANARY_KEYS,
    UNDER_TEST,
    check_may_hold,
    largest_reach,
    load_profiles,
    match_profile,
)
from perfgate.model import FEWEST_READINGS, METRICS, Consumers, Fault, Keys, Load, Profile, Threshold, settings
from perfgate.model.command import command_line
from perfgate.model.counting import counted
from perfgate.model.declared import lag_metrics
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import UNSOUND
from perfgate.model.metrics import HOTTEST_P99, LAG, LAG_GROWTH, OWED, P99_BACK
from perfgate.model.summary import centre
from perfgate.model.system import system_of
from perfgate.report.folder_options import ACCEPT, FOLDER, RESULTS, THRESHOLDS, in_changelog, profiles_in, words_given
from perfgate.report.next_steps import recording_of
from perfgate.report.results import load_run, recorded_facts
from perfgate.report.runs_alike import runs_alike, unsound, why_not_plain

CPU_METRIC = "broker_cpu_us_per_record"
LATENCIES = (
    "latency_ms.p99",
    "unloaded_latency_ms.p99",
    "end_to_end_latency_ms.p99",
    "peak_latency_ms.p99",
    HOTTEST_P99,
)
RATES = ("records_per_s", "mib_per_s", "knee_records_per_s", "received_records_per_s")
FAULT_METRICS = ("outage_s.max", "recovery_s", "catch_up_s", "p99_growth", "cpu_per_record_growth", "memory_growth")
"""Of a scenario with a fault, whose rate is declared, as far as it has them."""
IDLE = "receive_outage_partition_seconds"
"""The same of a scenario whose members come and go."""
TOLERANCE = dict.fromkeys((*RATES, CPU_METRIC, *FAULT_METRICS, LAG_GROWTH), 0.10) | dict.fromkeys(
    (*LATENCIES, P99_BACK, OWED, THROUGHOUT, LAG, IDLE), 0.5
)
"""Of a new entry. A p99 of some ms moves by half when one record in a hundred waits once more."""
ENOUGH_RUNS = 5
BECAUSE_HELP = "Why a worse baseline is right; red runs count then."


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposed:
    """A metric's new baseline from the values of separate runs."""

    scenario: str
    metric: str
    values: tuple[float, ...]
    rate: float = 0.0
    """The load in these runs, records/s (median), where it came from a knee; 0: it is declared."""

    @property
    def baseline(self) -> float:
        """The median over the runs, to four digits."""
        return float(f"{statistics.median(self.values):.4g}")

    @property
    def spread(self) -> float:
        """The coefficient of variation between the runs, at least 0.1 %."""
        return max(0.001, round(statistics.stdev(self.values) / statistics.median(self.values), 4))

    @property
    def looks(self) -> int:
        """How many measurements have to be red: a fault is not repeated."""
        return 1 if self.metric in (*FAULT_METRICS, THROUGHOUT, IDLE) else 2


def suggested_name(facts: Mapping[str, str], taken: Collection[str]) -> str:
    """Return a file name for a new profile, none of those `taken`: embedded-2c-amd-epyc."""
    model = re.sub(r"\((r|tm|c)\)|@.*|\b(cpu|processor|\d+-core)\b", " ", facts["cpu_model"].lower())
    cluster = re.findall(r"[a-z0-9]+", facts.get("cluster", "").lower())
    system = system_of(facts)
    other = [system] if system != "kafka" else []
    name = "-".join([*other, facts["target"], *cluster, f"{facts['cores']}c", *re.findall(r"[a-z0-9]+", model)[:5]])
    of_tier = "-".join([name, *([facts["tier"]] if "tier" in facts else [])])
    longer = f"{of_tier}-{system}-{facts[system]}".replace(".", "-")
    candidates = itertools.chain([name, of_tier, longer], (f"{longer}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def proposed(runs: Sequence[Mapping[str, Any]]) -> list[Proposed]:
    """Return the new baselines of every scenario that at least two of these runs measured soundly.

    A time whose end some round did not see has none: the median of the others would hide that.
    """
    proposals = []
    for name in sorted({entry["name"] for run in runs for entry in run["scenarios"]}):
        measured = (e for run in runs for e in run["scenarios"] if e["name"] == name)
        entries = [e for e in measured if e["verdict"] not in UNSOUND]
        for metric in _recorded(entries) if entries else ():
            of_a_time = metric in (*TIMES_UNTIL, P99_BACK)
            if of_a_time and any(metric not in r["metrics"] for e in entries for r in e["rounds"]):
                continue
            taken = [e for e in entries if metric in e["metrics"] and _sound(e, metric)]
            values = tuple(_as_judged(e, metric) for e in taken)
            rates = [e["load"]["rate"] for e in taken if e["load"].get("share_of_knee")]
            if len(values) > 1 and statistics.median(values) > 0:
                rate = float(round(statistics.median(rates))) if rates else 0.0
                proposals.append(Proposed(scenario=name, metric=metric, values=values, rate=rate))
    return proposals


def of_enough(proposals: Sequence[Proposed], runs: Sequence[Mapping[str, Any]]) -> list[Proposed]:
    """Return those with a sound value from enough runs; where there are fewer, from all of them."""
    return [new for new in proposals if len(new.values) >= min(ENOUGH_RUNS, len(runs))]


def _as_judged(entry: Mapping[str, Any], metric: str) -> float:
    """Return the figure that is judged; a percentile of all rounds' records would follow the worst round alone."""
    recorded = entry["metrics"][metric]
    return float(recorded["value"] if entry["declared"]["fault"] else centre(recorded["rounds"]))


def _sound(entry: Mapping[str, Any], metric: str) -> bool:
    """Whether the load of every round was valid, in time and taken by the brokers."""
    spoilt = metric.partition(".")[0]
    return not any(
        r.get("not_sustained") or any(not f["metrics"] or spoilt in f["metrics"] for f in r["flaws"])
        for r in entry["rounds"]
    )


def _recorded(entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if fault := next((entry["declared"]["fault"] for entry in entries if entry["declared"]["fault"]), None):
        kind = Fault(**fault).about
        of_readers = (IDLE,) if kind.joins else ()
        return (*FAULT_METRICS, *((THROUGHOUT,) if kind.harmless else ()), *of_readers)
    stated, declared = entries[0]["load"], entries[0]["declared"]
    load = Load(kind=stated["kind"], times_out=bool(stated.get("times_out")))
    sizes = ("mib_per_s",) if declared.get("sizes") and not load.open_loop else ()
    hottest = (HOTTEST_P99,) if Keys(**declared.get("keys", {})).skewed and load.open_loop else ()
    read = declared.get("consumers")
    consumers = Consumers(**{**read, "config": settings(read["config"])}) if read else None
    lag = lag_metrics(consumers, stated.get("rate", 0.0))
    return (*load.judged(readers=LAG_GROWTH not in lag), *sizes, *hottest, *lag, CPU_METRIC)


def canary_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the canary's readings before the clusters of all runs started, by name (median)."""
    readings = [r for run in runs for entry in run["scenarios"][:1] for r in entry["canary"][:FEWEST_READINGS]]
    return {name: float(f"{statistics.median(r[name] for r in readings):.4g}") for name in CANARY_KEYS if readings}


def why(new: Proposed, profile: Profile | None) -> str:
    old = stored(new, profile)
    tolerance = old.tolerance if old else TOLERANCE[new.metric]
    reach = min(largest_reach(new.metric), reach_of(tolerance, new.spread, len(new.values), new.looks))
    moved = f"{(new.baseline / old.baseline - 1) * 100:+.1f} %" if old else "new"
    before = number(old.baseline) if old else "-"
    rests = "the tolerance" if reach <= tolerance else f"spread {percent(new.spread)}; {narrower(new, tolerance)}"
    return f"{before:>10}  {number(new.baseline):>10}  {moved:>8}  {percent(reach):>8}  {rests}"


def narrower(new: Proposed, tolerance: float) -> str:
    """Return the words for the runs that would bring a metric's limit down to its tolerance, or that none would."""
    needed = runs_needed(tolerance, new.spread, new.looks)
    if needed is None:
        alone = percent(noise_factor(MOST_RUNS_WORTH_IT, new.looks) * new.spread)
        return f"not {tolerance * 100:g} % by more runs: the spread alone asks for {alone}"
    return f"{tolerance * 100:g} % with {counted(needed - len(new.values), 'more run')}"


def worse(proposals: Sequence[Proposed], profile: Profile | None) -> dict[Proposed, str]:
    """Return the new baselines that need a reason, each with the reason why it is worse.

    The error of a median of runs is MEDIAN_ERROR_FACTOR spreads over the root of their number. The anchor limits the
    sum of many small steps, each within its error, to the tolerance.
    """
    texts = {}
    for new in proposals:
        old = stored(new, profile)
        if old is None:
            continue
        name, anchor = f"{new.scenario} {new.metric}", old.anchor or old.baseline
        loss, sunk = (old.metric.sign * (1 - new.baseline / from_) for from_ in (old.baseline, anchor))
        error = MEDIAN_ERROR_FACTOR * math.hypot(
            new.spread / math.sqrt(len(new.values)), old.spread / math.sqrt(max(1, old.runs))
        )
        if new.rate and new.rate < old.rate * (1 - most_off(old)):
            texts[new] = f"{name}: recorded at {new.rate:,.0f} records/s, the stored baseline at {old.rate:,.0f}"
        elif loss > error:
            than = f"the stored baseline, more than its error of {percent(error)}"
            texts[new] = f"{name}: {percent(loss)} worse than {than}"
        elif sunk > old.tolerance:
            than = f"its anchor {number(anchor)}, more than {percent(old.tolerance)}"
            texts[new] = f"{name}: {percent(sunk)} worse than {than}"
    return texts


def stored(new: Proposed, profile: Profile | None) -> Threshold | None:
    held = profile.thresholds.get(new.scenario, ()) if profile else ()
    return next((threshold for threshold in held if threshold.metric.name == new.metric), None)


def text_in(path: Path) -> str:
    """Return a thresholds file's text without the mark that some editors begin it with; empty of no file."""
    return path.read_text(encoding="utf-8-sig") if path.exists() else ""


def with_profile(text: str, facts: Mapping[str, str]) -> tomlkit.TOMLDocument:
    """Return a thresholds file's document, with a table [profile] of these facts where it has none."""
    document = tomlkit.parse(text)
    if "profile" not in document:
        profile = tomlkit.table()
        profile.update({key: int(value) if key in ("cores", "brokers") else value for key, value in facts.items()})
        document["profile"] = profile
    return document


def updated(
    text: str,
    facts: Mapping[str, str],
    proposals: Sequence[Proposed],
    runs: Sequence[Mapping[str, Any]],
    because: str = "",
    explained: Collection[Proposed] = (),
) -> str:
    """Return the thresholds file `text` with the new baselines; tolerances, comments and all else in it stay.

    A better baseline moves its anchor, and so does a worse one that is `explained` by the reason `because`.
    """
    document = with_profile(text, facts)
    for name in UNDER_TEST:
        if name in document["profile"] and name in facts:
            document["profile"][name] = facts[name]
    if readings := canary_of(runs):
        document["canary"] = document.get("canary", tomlkit.table())
        document["canary"].update(readings)
    for new in proposals:
        table = document.setdefault(new.scenario, tomlkit.table())
        before = table.get(new.metric, {})
        best = max if METRICS[new.metric].better == "higher" else min
        anchor = before.get("anchor", before.get("baseline", new.baseline))
        table[new.metric] = entry = tomlkit.inline_table()
        entry["baseline"] = new.baseline
        entry["tolerance"] = before.get("tolerance", TOLERANCE[new.metric])
        entry["spread"] = new.spread
        entry["runs"] = len(new.values)
        entry["anchor"] = new.baseline if new in explained else best(anchor, new.baseline)
        if new.rate:
            entry["rate"] = new.rate
        entry.comment(" ".join(f"{value:.4g}" for value in new.values))
    today, ids = datetime.now(UTC).date().isoformat(), ", ".join(sorted(run["run_id"] for run in runs))
    tier = runs[0]["tier"]
    few = f"NOT ENOUGH RUNS: {len(runs)} of {ENOUGH_RUNS}. " if len(runs) < ENOUGH_RUNS else ""
    rounds = f"{tier['rounds']} x {tier['window_s']:g} s"
    source = f"{few}{today}: {counted(len(runs), 'run')}, tier {tier['name']} ({rounds}): {ids}"
    of = f" ({', '.join(f'{new.scenario} {new.metric}' for new in explained)})" if explained else ""
    reason = f"\n# because: {' '.join(because.split())}{of}" if because else ""
    return tomlkit.dumps(document).rstrip() + f"\n\n# {source}{reason}\n"


@click.command(epilog="Example: kafka-perf-gate thresholds --accept")
@RESULTS
@THRESHOLDS
@click.option(
    "--run",
    "like",  # no "run", of which pytest.ini states one: it would be of another folder than --results
    type=FOLDER,
    metavar="DIR",
    help="The run to take others like.  [default: the newest, results/latest]",
)
@click.option(
    "--profile", metavar="NAME", help="File to propose for.  [default: the profile that matches, else its name]"
)
@ACCEPT
@click.option("--because", default="", metavar="TEXT", help=BECAUSE_HELP)
def command(results: Path, thresholds: Path, like: Path | None, profile: str | None, accept: bool, because: str) -> int:
    """Show what the recorded runs would change in thresholds/."""
    try:
        newest = load_run((like or results / "latest") / "run.json", "--run")
        if reason := why_not_plain(newest):
            raise ConfigurationError(f"{reason}; name one of the gate as it stands: --run results/<run-id>")
        again = command_line("thresholds", *words_given(), "--accept")
        return show(newest, results, thresholds, profile=profile, accept=accept, accept_by=again, because=because)
    except (ConfigurationError, OSError) as error:
        print(f"no proposal: {error}", file=sys.stderr)
        return 2


def show(
    like: Mapping[str, Any],
    results: Path,
    thresholds: Path,
    *,
    profile: str | None = None,
    accept: bool = False,
    accept_by: str,
    because: str = "",
) -> int:
    """Print the thresholds from runs like `like`, write them if accepted. Raises ConfigurationError."""
    alike = runs_alike(like, results)
    left_out = {run["run_id"]: unsound(run, because) for run in alike}
    runs = [run for run in alike if not left_out[run["run_id"]]]
    facts = recorded_facts(like)
    profiles = {**load_profiles(catalogue.FOLDER), **profiles_in(thresholds)}
    used = profiles.get(profile) if profile else match_profile(profiles, facts)
    if used is not None:
        check_may_hold(used, facts)
    name = profile or (used.name if used else suggested_name(facts, profiles))
    path = thresholds / f"{name}.toml"
    print(
        f"{len(runs)} run(s) like {like['run_id']}: tier {like['tier']['name']}, "
        f"{', '.join(f'{key} {value}' for key, value in facts.items())}"
    )
    for run_id, reason in left_out.items():
        if reason:
            print(f"left out: {run_id}: {reason}")
    print(f"{path}{'' if path.exists() else ' (new: no stored profile is of this target and machine)'}")
    if len(runs) < ENOUGH_RUNS:
        folders = (("--results", results, "results"), ("--thresholds", thresholds, "thresholds"))
        given = [word for option, own, usual in folders if own != Path(usual) for word in (option, str(own))]
        recording = recording_of(like, *given)
        print(f"too few runs: {len(runs)} of {ENOUGH_RUNS}; {recording} does the rest, then again")
        return 1
    proposals = of_enough(candidates := proposed(runs), runs)
    print(f"{'scenario':<14}{'metric':<26}{'old':>10}  {'new':>10}  {'moved':>8}  {'limit':>8}  the limit rests on")
    for new in proposals:
        print(f"{new.scenario:<14}{new.metric:<26}{why(new, used)}")
    for few in (new for new in candidates if new not in proposals):
        kept = "kept" if stored(few, used) else "not written"
        print(f"{kept}: {few.scenario} {few.metric}: {len(few.values)} of {ENOUGH_RUNS} values; more runs add some")
    doubts = worse(proposals, used)
    for doubt in doubts.values():
        print(f"worse: {doubt}")
    if doubts and not because:
        print("nothing was written: say why these are right, --because 'TEXT' beside --accept; the file keeps it")
        return 1 if accept else 0
    if not accept:
        print(f"nothing was written; to write it: {accept_by}")
        return 0
    thresholds.mkdir(exist_ok=True)
    path.write_text(updated(text_in(path), facts, proposals, runs, because, doubts), encoding="utf-8")
    print(f"written: {path}; say in the commit{in_changelog()} why the figures moved")
    return 0
