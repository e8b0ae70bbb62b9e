"""Journal records of what a node must not forget: its claims and merges, audits, disputes."""
