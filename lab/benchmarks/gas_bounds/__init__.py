"""What single calls cost in gas at the bounds of a task, and the rounds in which they are made."""
