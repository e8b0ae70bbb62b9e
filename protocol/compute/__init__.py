"""The arithmetic of a training round: torch and the rules, without files, sockets, chain or clock."""
