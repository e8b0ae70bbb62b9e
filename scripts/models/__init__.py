"""Commands for trained models and for replays without a seat."""
