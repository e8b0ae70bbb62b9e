"""Measures the gas of single calls at the bounds of a task, and plays the rounds for them."""
