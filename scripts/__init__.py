"""Entry points and tools; nothing else imports them."""
