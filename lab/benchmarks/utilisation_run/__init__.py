"""Parts of the benchmark of utilisation: the network that it runs, and how it counts."""
