"""What all must compute alike: the rules, the arithmetic and the ways to the outside."""
