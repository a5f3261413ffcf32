"""What attached targets of every system share: their file, limits, manifest, fault commands."""
