"""Programs as they are run: views of nodes, memory, runs of nodes, parts of several workers."""
