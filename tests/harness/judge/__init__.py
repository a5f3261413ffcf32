"""Verdicts, on synthetic measurements."""
