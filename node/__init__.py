"""The node of a task's members; a solver's trains, claims, merges and defends."""
