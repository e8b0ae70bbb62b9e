"""Blobs between peers over HTTPS: who asks is proven by a signature, who answers by a pinned certificate."""
