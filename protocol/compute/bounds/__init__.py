"""Checks every element of a claimed step against the bound of its operation, and proves faults."""
