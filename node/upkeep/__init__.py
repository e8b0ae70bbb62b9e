"""What keeps a task going and a disk small: calls that anybody may send, pruning, a test of own bits."""
