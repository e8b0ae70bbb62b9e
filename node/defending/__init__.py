"""Answers disputes and queries about this node's own statements."""
