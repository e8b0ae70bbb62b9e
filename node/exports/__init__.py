"""Models in and out: folders of weights, exports, adapters, and the use of a trained model."""
