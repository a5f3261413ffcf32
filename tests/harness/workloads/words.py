"""A dictionary for the parsers' tests: settings as they are stated, and text of any ratio up to 20."""

from collections.abc import Mapping

from perfgate.workloads.imported import Dictionary, OfJava


def as_stated(properties: Mapping[str, str]) -> OfJava:
    untaken = {name: "not taken" for name in properties if name.startswith("untaken.")}
    return OfJava(settings={name: text for name, text in properties.items() if name not in untaken}, untaken=untaken)


WORDS = Dictionary(producer=as_stated, consumer=as_stated, text_ratio=lambda _bytes, ratio: min(ratio, 20.0))
