"""Generators, schedules, turns."""
