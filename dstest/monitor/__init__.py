"""What was measured of nodes, servers and clients while a run went on, and what follows from it.

Plain data and pure functions. Sampling itself is in `dstest.runner`, on nodes in
`clusters.remote.agent_samples`.
"""
