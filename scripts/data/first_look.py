"""Looks at the first documents of all files before the first one is packed.

So what is wrong with a file, or lost from it, is told at once and not after hours.
"""

from collections.abc import Sequence

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.bad_documents import BadDocuments
from touchstone.scripts.data.documents import Fields, read_documents
from touchstone.scripts.data.input_files import InputFile
from touchstone.scripts.data.text_loss import SLICE_CHARACTERS, TextLoss, TextLost
from touchstone.scripts.data.tokenizing import place_failure

CHARACTERS = 1 << 21
"""About so many characters of all files together are looked at."""
LEAST_OF_FILE = 1_000
DOCUMENTS = 512
"""The most documents of a file that are looked at."""


def look_at_first(files: Sequence[InputFile], fields: Fields, loss: TextLoss, bad: BadDocuments) -> None:
    """Reads, encodes and decodes the first documents of each file. Raises InvalidInput for what a whole pack
    would refuse, if it shows there."""
    room = min(SLICE_CHARACTERS, max(LEAST_OF_FILE, CHARACTERS // len(files)))
    for file in files:
        loss.start(file.path)
        left = room
        for number, document in enumerate(read_documents(file, fields)):
            try:
                text = next(document.read(), "")[:left]
                loss.add(text)
            except TextLost:
                raise
            except InvalidInput as error:
                bad.skip(place_failure(error, document.where))
                continue
            left -= len(text)
            if left <= 0 or number >= DOCUMENTS:
                break
    loss.judge()
