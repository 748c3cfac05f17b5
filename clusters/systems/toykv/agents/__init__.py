"""The server of toykv, which runs on nodes: standard library only."""
