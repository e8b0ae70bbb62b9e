"""Families of models and their plain PyTorch step, batches of tokens, and Hugging Face's formats."""
