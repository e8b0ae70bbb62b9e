"""Auditing: replays drawn segments blind, seals what it found, and votes."""
