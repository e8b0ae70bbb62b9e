"""Advice about money: odds of an audit, amounts, what a cheat gains. No rule depends on it."""
