"""Mutation testing of the contracts: all mutants in one compiled copy, chosen at run time (0022)."""
