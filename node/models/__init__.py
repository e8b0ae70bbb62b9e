"""The global model that rounds make, and the openings of the claims that it is made of."""
