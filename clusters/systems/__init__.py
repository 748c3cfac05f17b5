"""What runs on the nodes: one package or file per system."""
