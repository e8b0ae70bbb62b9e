"""Reads facts about this machine: how much a process may use, whether others use it, which bits it
computes."""
