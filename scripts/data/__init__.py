"""Turns texts into the tokens of a task."""
