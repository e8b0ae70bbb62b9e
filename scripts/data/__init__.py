"""Texts that become the tokens of a task."""
