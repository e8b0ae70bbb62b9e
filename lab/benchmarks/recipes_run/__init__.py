"""Parts of the benchmark of recipes."""
