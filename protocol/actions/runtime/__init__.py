"""What every role runs on: the open party, what the chain tells, the loop, joining."""
