"""The account's key, its keystore, and what is signed with it."""
