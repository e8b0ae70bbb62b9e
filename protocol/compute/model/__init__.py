"""The reference model and its plain PyTorch step, batches of tokens, and the export."""
