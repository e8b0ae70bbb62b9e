"""Writes, reads, checks, posts and closes tasks."""
