"""Opens a node, and performs what is due until its task closes."""
