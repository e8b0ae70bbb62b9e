"""Every element of a claimed step against the bound of its operation, and proofs of a fault."""
