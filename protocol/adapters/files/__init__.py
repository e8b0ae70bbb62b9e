"""Files: private, durable, mapped into memory, known to be unchanged."""
