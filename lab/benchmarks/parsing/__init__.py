"""Parsers of what strangers send, fed with damaged inputs (`lab/benchmarks/parsers.py`)."""
