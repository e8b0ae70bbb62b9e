"""Opens a node, and has it perform what is due until its task closes."""
