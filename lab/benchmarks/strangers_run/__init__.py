"""Strangers that disturb a node, and what others observe of it."""
