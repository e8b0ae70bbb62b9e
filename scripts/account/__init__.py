"""Shared parts of commands that ask or send as the account of a home."""
