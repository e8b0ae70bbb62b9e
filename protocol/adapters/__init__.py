"""One module per outside system, so that everything else can be tested without it."""
