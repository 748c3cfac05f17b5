"""SQL databases: workloads as statements, whatever the dialect and the library."""

from clusters.sql.clients import SqlClient, clients_on
from clusters.sql.deployment import SqlDeployment
from clusters.sql.dialect import Dialect
from clusters.sql.link import SqlLink
from clusters.sql.options import ISOLATION, SQL_OPTIONS

__all__ = [
    "ISOLATION",
    "SQL_OPTIONS",
    "Dialect",
    "SqlClient",
    "SqlDeployment",
    "SqlLink",
    "clients_on",
]
