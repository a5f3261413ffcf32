"""Verdicts over a comparison: a sequential test of paired rounds."""
