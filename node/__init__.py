"""What every member of a task does; a solver trains, claims, merges and defends."""
