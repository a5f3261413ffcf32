"""Verdicts over a round with a fault."""
