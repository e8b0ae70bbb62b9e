"""A trace pushed to the edge of its bounds: derivatives of a trace, elements at their edges."""
