"""What every role must agree on: the rules, the arithmetic and the ways to the outside."""
