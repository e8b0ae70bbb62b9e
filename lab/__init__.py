"""What measures and breaks the product: benchmarks, campaigns, vectors. The product imports none of it."""
