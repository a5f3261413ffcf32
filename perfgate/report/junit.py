"""What a test's entry in pytest's JUnit XML (--junit-xml) holds beside its message: its properties."""

from __future__ import annotations

from perfgate.model import ComparisonOutcome, Measurement, Outcome, Relation
from perfgate.report.figures import valid_figures

Properties = list[tuple[str, object]]


def scenario_properties(measurement: Measurement, outcome: Outcome) -> Properties:
    """Return verdict, family and the valid metrics of a scenario, these in run.json's names and units."""
    figures = [(name, f"{value:.6g}") for name, value in valid_figures(measurement).items()]
    return [("verdict", outcome.verdict.value), ("family", measurement.scenario.families[0]), *figures]


def relation_properties(relation: Relation, outcome: Outcome) -> Properties:
    """Return verdict and family of a relation, and its ratio; over a range a ratio for each step."""
    measured = [(f"ratio {judgement.step}".rstrip(), judgement.measured) for judgement in outcome.judgements]
    ratios = [(name, f"{ratio:.6g}") for name, ratio in measured if ratio is not None]
    return [("verdict", outcome.verdict.value), ("family", relation.family), *ratios]


def comparison_properties(outcome: ComparisonOutcome) -> Properties:
    """Return the verdict of a comparison; the effect on the metric that decides, and its 95 % interval, as shares."""
    if outcome.primary is None:
        return [("verdict", outcome.effect.value)]
    low, high = outcome.primary.interval
    return [
        ("verdict", outcome.effect.value),
        ("metric", outcome.primary.metric.name),
        ("effect", f"{outcome.primary.estimate:.4f}"),
        ("interval", f"{low:.4f} .. {high:.4f}"),
    ]
