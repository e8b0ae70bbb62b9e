"""What every role can do with a claim; a role only decides when."""
