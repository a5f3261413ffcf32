"""The suite's own tests leave no run behind (no results folder, no Allure results), and a warning fails them."""

import hypothesis
import pytest

from fixtures.options import LEAVES_RESULTS

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Say so before the reports look."""
    config.stash[LEAVES_RESULTS] = False
    config.addinivalue_line("filterwarnings", "error")
