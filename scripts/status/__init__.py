"""Shows what the chain says of tasks and of an account."""
