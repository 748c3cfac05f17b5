"""Why did it fail: logs of nodes, traces of requests, what was measured, and the patterns of how
distributed systems fail, each looked for in one run."""
