"""Makes the limits of a task out of honest distances."""
