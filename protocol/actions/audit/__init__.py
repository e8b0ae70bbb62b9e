"""Direct audits: what solver and auditor say to each other, replays, votes and their openings."""
