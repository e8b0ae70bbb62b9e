"""Shows the whole product in one run on one machine: strangers train a model, and a cheat is convicted."""
