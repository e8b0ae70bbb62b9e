"""Parts of the benchmark of graphics cards."""
