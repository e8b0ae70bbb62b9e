"""The home of a party: its configuration, its key, its running settings."""
