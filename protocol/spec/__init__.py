"""The rules as pure functions, standard library only, so that a reader can check them."""
