"""A party's server in a process of its own, which stops in the middle of a blob where it is told to.

Usage: python stalling_server.py FOLDER PORT STALL_BYTES. Prints its port, then a line for each transfer:
`from OFFSET` when it begins, `stalled` when it stops for good.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.protocol.adapters.parties import Party
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey


class StallingStore(BlobStore):
    """A store whose reader stops for good after `stall_bytes` of a blob."""

    stall_bytes = 0

    def open_range(self, key: BlobKey, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """As its parent's, up to the stall."""
        print("from", start, flush=True)
        for piece in super().open_range(key, start, stop):
            if self.stall_bytes and start >= self.stall_bytes:
                print("stalled", flush=True)
                time.sleep(600)
            start += len(piece)
            yield piece


async def main() -> None:
    """Serve until killed."""
    party = Party(Path(sys.argv[1]), 1)
    party.store = StallingStore(party.store.folder)
    party.store.stall_bytes = int(sys.argv[3])
    print(await party.make_server().start(port=int(sys.argv[2])), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
