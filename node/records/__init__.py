"""What a node must not forget, by subject: its claims and merges, audits, disputes. The journal keeps it."""
