"""What acts on a node: rules, queues, groups, file systems and small programs of ours."""
