"""Computes the outer step on whole tensors."""
