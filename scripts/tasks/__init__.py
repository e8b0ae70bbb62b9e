"""Task files: written, read, checked, posted, closed."""
