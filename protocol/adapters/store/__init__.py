"""Stores blobs on disk, checked by their hashes; parts of datasets; copies in a bucket."""
