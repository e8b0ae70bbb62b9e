"""What commands share that ask or send as the account of a home."""
