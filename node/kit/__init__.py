"""What every member has: settings, the chain's state folded, a store, windows of retention."""
