"""This machine: what a process may take of it, who uses it, which bits it computes."""
