"""Training: own claims, ahead of the chain or not, by several workers, and segments trained again."""
