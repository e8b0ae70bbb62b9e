"""The verifier: replays sampled segments blind and reports a verdict."""
