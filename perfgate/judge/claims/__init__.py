"""Claims, a module a kind: what of an arm's metrics is held against a limit, or against another arm."""
