"""Who takes part in the task of GPT-2's size, and what each of them notes of its own work."""
