"""The command line: a table of commands, their output, their exit."""
