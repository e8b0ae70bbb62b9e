"""What strangers do to a node, and what is seen of it from outside."""
