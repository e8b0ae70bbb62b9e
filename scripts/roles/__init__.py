"""What each role does."""
