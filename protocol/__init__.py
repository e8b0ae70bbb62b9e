"""The rules, the arithmetic and the adapters to other systems, which all nodes must share."""
