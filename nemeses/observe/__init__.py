"""What nodes, servers and paths show of themselves."""
