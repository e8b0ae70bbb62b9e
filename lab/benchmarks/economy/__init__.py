"""Agents that play a task for money, and what each of them earns."""
