"""Attached targets of every system: their file, limits, manifest, fault commands."""
