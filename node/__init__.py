"""The solver: trains a round, commits to it, serves its blobs and answers disputes."""
