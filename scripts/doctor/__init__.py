"""Checks a home, its machine, its chain and its seats."""
