"""Joining a task: what is read, refused, fetched and proven before a stake is locked."""
