"""Reads this machine: what a process may use of it, who else uses it, which bits it computes."""
