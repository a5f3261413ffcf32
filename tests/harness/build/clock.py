"""A clock of its own for code that waits or measures how long something took."""


class Clock:
    """Seconds that pass when code sleeps, or when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.times = 1.0
        """A sleep takes so many times as long as it was asked to: a wait comes to its end in few looks."""

    def monotonic(self) -> float:
        return self.now

    def until(self, moment: float, *_: object) -> None:
        """Be there then, as a load that is followed until that moment."""
        self.now = max(self.now, moment)

    def sleep(self, seconds: float) -> None:
        self.now += seconds * self.times
