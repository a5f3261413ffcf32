"""The suite's own tests leave no run behind: no results folder, no Allure results."""

import pytest

from fixtures.options import LEAVES_RESULTS


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Say so before the reports look."""
    config.stash[LEAVES_RESULTS] = False
