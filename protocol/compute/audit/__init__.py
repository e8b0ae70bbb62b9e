"""From honest distances to the limits of a task."""
