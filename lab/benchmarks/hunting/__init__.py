"""Cheats set loose on verifiers: at the compute seam, on a real chain, and in money."""
