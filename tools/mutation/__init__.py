"""Makes mutants of the contracts, and finds which tests notice them."""
