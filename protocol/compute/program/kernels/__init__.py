"""Computes the nodes of a program with PyTorch, by kind of operation."""
