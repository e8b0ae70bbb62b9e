"""Asks, disputes and evidence: what a node opens, answers and ends."""
