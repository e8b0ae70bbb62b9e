"""Joins a task: reads it, refuses what is harmful, fetches and checks its data before a stake is locked."""
