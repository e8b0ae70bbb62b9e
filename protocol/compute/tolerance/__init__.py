"""How far a claimed number may lie from the right one: one interface for both kinds of tasks."""
