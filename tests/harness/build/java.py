"""A Java that runs nothing: it tells its release, and ends as a test says."""

from pathlib import Path

PROGRAM = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{release}.0.1"' >&2; exit; fi
number=$(ls {asked} | wc -l)
printf '%s\\n' "$@" > {asked}/$number
while [ ! -e {answers}/$number ]; do number=$((number - 1)); done
. {answers}/$number
"""


class FakeJava:
    """A program in the place of java, in a folder for JAVA_HOME; it notes what it is asked but for its version."""

    def __init__(self, home: Path, release: int = 25) -> None:
        self.home, self.path = home, home / "bin" / "java"
        self._asked, self._answers = home / "asked", home / "answers"
        for folder in (self.path.parent, self._asked, self._answers):
            folder.mkdir(parents=True)
        self.path.write_text(PROGRAM.format(release=release, asked=self._asked, answers=self._answers))
        self.path.chmod(0o755)
        self.does("true")

    def does(self, *commands: str) -> None:
        """Have the next calls do this, a line of the shell each; the last of them is done again and again."""
        begun = len(self.asked)
        for one in self._answers.iterdir():
            if int(one.name) >= begun:
                one.unlink()
        for number, command in enumerate(commands, start=begun):
            (self._answers / str(number)).write_text(command)

    @property
    def asked(self) -> list[list[str]]:
        """The options and arguments of each call."""
        count = len(list(self._asked.iterdir()))
        return [(self._asked / str(number)).read_text().splitlines() for number in range(count)]
