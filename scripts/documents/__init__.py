"""What commands write with `--json`, as types; docs/schemas is made of them."""
