"""Draws a table that breaks no word.

By the room there is, it has borders, none, or a line for each row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.box import HEAVY_HEAD, Box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

BORDER_WIDTH, GAP = 3, 2
"""The columns that a cell takes besides its text, with borders (one more in all) and without."""


@dataclass
class FittingTable:
    """A table with a title and headings. Cells are plain text, whoever wrote them. `right` are headings of
    columns of numbers."""

    title: str
    headings: Sequence[str]
    right: frozenset[str] = frozenset()
    rows: list[Sequence[str]] = field(default_factory=list)

    def add_row(self, *cells: str) -> None:
        """Adds a row; missing cells at the end are empty."""
        self.rows.append([*cells, *[""] * (len(self.headings) - len(cells))])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yields the table in the first form that fits into the width."""
        count = len(self.headings)
        borders = {HEAVY_HEAD: BORDER_WIDTH * count + 1, None: GAP * count}
        for box, taken in borders.items():
            widths = choose_widths([self.headings, *self.rows], options.max_width - taken)
            if widths:
                yield self._make_table(box, widths)
                return
        if self.title:
            yield Text(self.title, style="italic")
        for row in self.rows:
            first, *rest = zip(self.headings, row, strict=True)
            cells = ", ".join(f"{name} {cell}".strip() for name, cell in rest if cell)
            yield Text(f"{' '.join(filter(None, first))}: {cells}")

    def _make_table(self, box: Box | None, widths: Sequence[int]) -> Table:
        padding = (0, 1) if box else (0, GAP, 0, 0)
        table = Table(title=self.title or None, title_justify="left", box=box, padding=padding)
        for name, width in zip(self.headings, widths, strict=True):
            table.add_column(Text(name), width=width, justify="right" if name in self.right else "left")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table


def choose_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Returns the width of each column: at least the longest word, at most the longest cell. Room that is
    left goes to the columns that need the least of it. Empty if there is too little room for the words."""
    columns = [[cell for cell in column if cell] for column in zip(*rows, strict=True)]
    widths = [max((len(word) for cell in column for word in cell.split()), default=1) for column in columns]
    wanted = [max(map(len, column), default=1) for column in columns]
    left = room - sum(widths)
    if left < 0:
        return []
    for place in sorted(range(len(widths)), key=lambda place: wanted[place] - widths[place]):
        more = min(left, wanted[place] - widths[place])
        widths[place] += more
        left -= more
    return widths
