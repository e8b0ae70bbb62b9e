"""The rules as pure functions, standard library only, so that anyone can check them by reading."""
