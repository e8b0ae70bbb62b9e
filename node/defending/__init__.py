"""Answers to disputes about own steps."""
