"""Handles files: private, durable, mapped into memory, known to be unchanged."""
