"""What was measured of nodes, servers and clients while a run went on, and what follows from it.

Plain data and pure functions. Sampling itself is in `dstest.runner`, on nodes in
`clusters.remote.agent_samples`. Alerts decide nothing. Of the baseline the judge is told
(`RunFacts.measured`): RF8 compares with it besides, and it makes nothing better. A run without
samples and without the word of a sampler is judged as before there were any.
"""
