"""Touchstone: strangers train one model together, and any number of the run can be challenged."""
