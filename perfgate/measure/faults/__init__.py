"""Rounds with a fault: the load goes on while nodes or clients go, and what that costs is measured."""
