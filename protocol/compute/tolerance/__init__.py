"""Says how far a claimed number may differ from the right one: one interface for both kinds of tasks."""
