"""Who takes part in the task of 124 million parameters, and what each of them notes of its own work."""
