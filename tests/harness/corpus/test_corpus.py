"""The corpus: recorded runs, lists and plans say what they said (python -m tests.harness.corpus.freeze)."""

import pytest

from tests.harness.corpus.freeze import difference, names, said


@pytest.mark.parametrize("name", names())
def test_it_is_as_it_was_frozen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CI", "BUILD_NUMBER"):  # pytest then shortens no line
        monkeypatch.delenv(variable, raising=False)
    assert difference(name, said(name)) == ""
