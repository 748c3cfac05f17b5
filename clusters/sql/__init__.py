"""SQL databases: workloads as statements, whatever the dialect and the library."""

from clusters.sql.clients import ROLLED_BACK, Dialect, SqlClient, SqlLink, clients_on
from clusters.sql.deployment import (
    ISOLATION,
    POSTGRESQL_RELAXED,
    SQL_OPTIONS,
    ChangingSchema,
    SqlDeployment,
)

__all__ = [
    "ISOLATION",
    "POSTGRESQL_RELAXED",
    "ROLLED_BACK",
    "SQL_OPTIONS",
    "ChangingSchema",
    "Dialect",
    "SqlClient",
    "SqlDeployment",
    "SqlLink",
    "clients_on",
]
