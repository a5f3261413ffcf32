"""Thresholds, profiles and relations."""

from perfgate.model import METRICS, PairRelation, Profile, Threshold, metric_info


def threshold(
    metric: str, baseline: float, tolerance: float = 0.1, name: str = "batch-1k", reach: float | None = None
) -> Threshold:
    """Return a threshold of this metric, whose limit is its tolerance's unless noise makes it `reach`."""
    info = metric_info(metric)
    assert info
    return Threshold(
        scenario=name,
        metric=info,
        baseline=baseline,
        tolerance=tolerance,
        reach=tolerance if reach is None else reach,
    )


def profile(*thresholds: Threshold) -> Profile:
    """Return a profile of these thresholds."""
    names = dict.fromkeys(t.scenario for t in thresholds)
    by_name = {name: tuple(t for t in thresholds if t.scenario == name) for name in names}
    return Profile(name="test", facts={"target": "embedded"}, thresholds=by_name, path="thresholds/test.toml")


def relation(at_least: float, metric: str = "records_per_s", at_most: float = 100.0) -> PairRelation:
    """Return the relation fast / slow."""
    return PairRelation(
        name="family-rate",
        family="family",
        claim="fast is faster than slow",
        metric=METRICS[metric],
        of="fast",
        over="slow",
        at_least=at_least,
        at_most=at_most,
        source="test",
    )
