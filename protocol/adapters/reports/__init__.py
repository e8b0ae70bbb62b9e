"""What a node reports: metrics and its state to its operator, figures of a round to anybody."""
