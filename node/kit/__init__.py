"""Parts that every member's node has: settings, the folded chain, a store, retention windows."""
