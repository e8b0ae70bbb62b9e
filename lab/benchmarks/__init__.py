"""Each file answers one question. Results go to build/<name>/ as JSON with machine, command and ratio."""
