"""Records, lowers, lays out and runs the training step as a program."""
