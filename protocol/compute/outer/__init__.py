"""The outer step on whole tensors."""
