"""A failing run made small: the fewest faults, the shortest windows, the lightest load that still
show the same violation, each step tried on a cluster."""
