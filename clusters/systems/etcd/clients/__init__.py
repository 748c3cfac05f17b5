"""What one logical process asks of a member of etcd."""
