"""Gathers merge signatures, and posts outer roots."""
