"""Limits of a task, measured on this machine."""
