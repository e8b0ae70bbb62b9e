"""Merge signatures, and the posts of outer roots."""
