"""Benchmarks, which measure and attack the product. The product imports none of them."""
