"""Progress lines for the person who waits."""

from __future__ import annotations

from typing import Protocol


class Say(Protocol):
    """Tells the person what goes on."""

    def __call__(self, text: str, left_s: float | None) -> None:
        """Show `text`, and how many seconds are left if that is known."""

    def note(self, text: str) -> None:
        """Write a line that stays."""

    def clear(self) -> None:
        """Take away what was shown."""
