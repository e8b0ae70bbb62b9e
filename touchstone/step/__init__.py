"""Records a training step of a PyTorch module as a program, on a submitter's machine."""
