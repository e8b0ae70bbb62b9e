"""Counts the documents that are skipped because they are malformed or cannot be encoded."""

from touchstone.protocol.spec.errors import InvalidInput

KEPT = 10
"""The most skipped documents whose place and fault are kept."""
SHOWN = 3
"""The most of them that an error shows."""


class BadDocuments:
    """The skipped documents: `count`, and place and fault of the `first` ones. `most` may be skipped."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self.first: list[tuple[str, str]] = []

    def skip(self, error: InvalidInput) -> None:
        """Counts a document by its error. Raises InvalidInput if more are bad than may be skipped."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append((str(error.where), error.what))
        if self.count <= self.most:
            return
        if not self.most:
            raise InvalidInput(
                what=error.what,
                expected=error.expected,
                actual=error.actual,
                where=error.where,
                remedy=f"{error.remedy} --skip-bad N skips up to N documents that are bad.",
            ) from error
        raise InvalidInput(
            what="more documents are bad than may be skipped",
            expected=f"at most {self.most}",
            actual="; ".join(f"{place}: {fault}" for place, fault in self.first[:SHOWN]),
            remedy="Correct them, or raise --skip-bad.",
        ) from error
