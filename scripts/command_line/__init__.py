"""The command line: its commands as a table, what they print, how they end."""
