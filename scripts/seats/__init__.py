"""Commands that take a seat in a task."""
