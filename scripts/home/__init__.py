"""The folder of a party: its configuration, its key, what it runs with."""
