"""Measuring: blocks, interleaved rounds, turns, warm-up, and whether a round is valid."""
