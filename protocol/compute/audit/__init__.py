"""How far two states lie apart, and from honest distances to limits."""
