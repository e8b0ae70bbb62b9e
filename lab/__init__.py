"""What measures and breaks the product: benchmarks. The product imports none of it."""
