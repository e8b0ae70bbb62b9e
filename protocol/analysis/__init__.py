"""Advice to an account that posts or judges a task: amounts derived from figures. No rule needs it."""
