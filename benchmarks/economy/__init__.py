"""Rational and colluding agents who play rounds against the contracts for money."""
