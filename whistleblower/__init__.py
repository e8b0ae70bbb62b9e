"""Challenging: questions, disputes, contests and proofs against statements that are false."""
