"""Flat tensors of the store: looked at where their bytes lie."""

from torch import Tensor

from protocol.adapters.blobs import BlobRef
from protocol.adapters.store import BlobStore
from protocol.compute.digest import require_finite
from protocol.compute.room import view_mapped


def load_tensor(store: BlobStore, ref: BlobRef) -> Tensor:
    """A flat float32 vector from the store, where its bytes stay: it is not to be written to. Raises
    InvalidInput where it is not there, EnvironmentFault where it is damaged, ProtocolFault where an element
    is not finite."""
    flat = view_mapped(store.open_map(ref))
    require_finite(flat)
    return flat
