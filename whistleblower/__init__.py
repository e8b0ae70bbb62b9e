"""Challenging: queries, disputes, contests and proofs against statements that are false."""
