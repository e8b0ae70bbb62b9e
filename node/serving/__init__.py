"""Serves others: blobs, reports, audits of own claims, probes of endpoints."""
