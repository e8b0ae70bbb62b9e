"""Reports about a node: metrics and its state for its operator, figures of a round for anybody."""
