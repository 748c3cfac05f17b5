"""Twenty-seven patterns of how distributed systems fail, each looked for in a finished run."""
