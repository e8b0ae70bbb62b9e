"""What an operator has to know of a node: troubles, metrics, money."""
