"""Sends blobs between peers over HTTPS. Askers sign requests; servers have pinned certificates."""
