"""One question a file; results go to build/<name>/ as JSON with the machine, the command and the ratio."""
