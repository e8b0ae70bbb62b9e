"""Exports and imports models: folders of weights, adapters, and the use of a trained model."""
