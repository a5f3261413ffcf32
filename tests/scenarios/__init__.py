"""The scenarios: one file per factor, one literal row per scenario."""
