"""Deterministic simulation: servers and clients in one process, on a clock that is not there.

What runs is written for asyncio, and runs unchanged over sockets: connections, datagrams, timers
and threads for blocking calls come from a loop that simulates them (`loop.py`, `network.py`). Files
come from an object that is given (`files.py`). All that is random is drawn from one seed.
"""
