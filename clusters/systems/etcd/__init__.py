"""etcd: members from Debian's etcd-server package, v3 API."""
