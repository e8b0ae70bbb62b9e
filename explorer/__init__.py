"""The explorer: a web page of what a chain says of its tasks. It has no key and sends nothing."""
