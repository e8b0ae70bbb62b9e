"""What an operator has to know of a node: health issues, metrics, money."""
