"""The parties of the task of 124 million parameters, and what each notes of its own work."""
