"""Parts of the utilisation benchmark: the network that it runs, and how it counts."""
