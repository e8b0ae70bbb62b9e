"""The whistleblower: watches, re-checks finished claims and disputes the false ones."""
