"""Verdicts on rounds with a fault."""
