"""Records a training step: a PyTorch module, a loss and an optimizer become a program (a submitter's machine
only).
"""
