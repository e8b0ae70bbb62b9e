"""Holds the account's key and its keystore, and signs with it."""
