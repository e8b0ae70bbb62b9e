"""The outer step: claims, merge signatures, posted roots and their contests."""
