"""What the chain tells of tasks and of an account."""
