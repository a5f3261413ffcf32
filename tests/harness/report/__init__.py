"""Reports, from recorded runs."""
