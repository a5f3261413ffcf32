"""Claims, a module a kind: the metrics of an arm against a limit, or against another arm."""
