"""Campaigns over the contracts: fuzzing, mutants, proofs, known mistakes, storage layouts."""
