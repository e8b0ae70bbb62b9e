"""Advice to whoever posts or judges a task: exact odds, derived amounts, simulations. No rule needs it."""
