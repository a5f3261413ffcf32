"""Facts of the software: a commit, and how the checkout differs from it."""

import subprocess
from pathlib import Path

import pytest

from perfgate.host import environment


def test_further_edits_of_a_checkout_are_another_state_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both were `-dirty`: a run that was interrupted could be continued by other code."""
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    assert environment._commit() == "unknown"
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    kept = tmp_path / "code.py"
    kept.write_text("a = 1\n")
    for command in (("init", "-q"), ("add", "code.py"), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=60)
    clean = environment._commit()
    assert len(clean) == 12
    states = []
    for text in ("a = 2\n", "a = 3\n", "a = 2\n"):
        kept.write_text(text)
        states.append(environment._commit())
    assert all(state.startswith(f"{clean}-dirty-") for state in states)
    assert states[0] != states[1]
    assert states[0] == states[2]
