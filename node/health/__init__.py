"""Shows an operator the state of a node: health issues, metrics, money."""
