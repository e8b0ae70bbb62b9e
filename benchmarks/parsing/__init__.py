"""Parsers of what strangers send, fed with damaged inputs (`benchmarks/parsers.py`)."""
