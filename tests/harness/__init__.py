"""Tests of the suite itself; those in test_live_*.py start real brokers, the others need none."""
