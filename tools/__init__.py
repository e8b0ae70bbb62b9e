"""Tools of this repository: the contracts' compiler, shared vectors, fuzzing, mutants, proofs."""
