"""Keeps a task going and the disk small: calls that anybody may send, pruning, a test of own bits."""
