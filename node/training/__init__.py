"""Trains: own claims, speculative ones too, by one or several workers; and trains segments again."""
