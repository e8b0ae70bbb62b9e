"""Makes a task's limits from measurements on this machine."""
