"""A plugin for a gate run (`-p tests.harness.no_pictures`) whose pictures nobody looks at: they cost seconds."""

from perfgate.report import allure_results, plots


def _none(*_: object) -> dict[str, bytes]:
    return {}


for name in ("pictures", "comparison_pictures", "family_pictures"):
    for module in (plots, allure_results):
        if hasattr(module, name):
            setattr(module, name, _none)
