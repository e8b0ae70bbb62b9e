"""Defines what each role does."""
