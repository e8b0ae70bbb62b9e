"""Plans how programs run: views of nodes, memory, runs of nodes, parts of several workers."""
