"""The types of the JSON that commands write with `--json`; docs/schemas is made of them."""
