"""Plays of one group of rules, by the names of their functions."""

from tests.kit.world import Play


class Plays(dict[str, Play]):
    """A group. Each play is a function without arguments that plays one task and returns its world."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def add(self, play: Play) -> Play:
        """Adds a play; to be used as a decorator."""
        self[play.__name__] = play
        return play
