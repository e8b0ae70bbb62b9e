"""What computes a node of a program with PyTorch, by kind of operation."""
