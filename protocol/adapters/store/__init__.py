"""Blobs on disk, judged by what they hash to; parts of datasets; copies in a bucket."""
