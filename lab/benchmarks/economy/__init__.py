"""Agents that play the round for money, and what they come to."""
