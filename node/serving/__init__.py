"""What a node shows to others: blobs, reports, audits of its own claims, a look at their endpoints."""
