"""Calls a subcommand of kafka-perf-gate in this process."""

import click


def called(command: click.Command, *arguments: object) -> int:
    """Return its exit code."""
    return int(command.main([*map(str, arguments)], standalone_mode=False))
