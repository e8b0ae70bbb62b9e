"""Gives advice about money: odds of an audit, amounts, a cheat's gains. No rule depends on it."""
