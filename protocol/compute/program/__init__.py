"""The training step as a program: recorded, lowered, laid out, and run."""
