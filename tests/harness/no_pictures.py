"""A plugin for a gate run (`-p tests.harness.no_pictures`) whose pictures nobody looks at: they cost seconds."""

from fixtures import reporters
from perfgate.report import allure_results


def _none(*_: object) -> dict[str, bytes]:
    return {}


for module, name in (
    (allure_results, "pictures"),
    (allure_results, "comparison_pictures"),
    (reporters, "family_pictures"),
):
    setattr(module, name, _none)
