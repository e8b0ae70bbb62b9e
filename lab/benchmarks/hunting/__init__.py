"""Attacks on verifiers: on computed segments, on a real chain, and in money."""
