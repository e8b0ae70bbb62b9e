"""Honest machines in unstable phases: how far they part, and that no step of theirs is beyond the limits."""
