"""SQL databases: workloads as statements, whatever the dialect and the library."""

from clusters.sql.client import ROLLED_BACK, SqlClient
from clusters.sql.clients import clients_on
from clusters.sql.deployment import SqlDeployment
from clusters.sql.dialect import Dialect
from clusters.sql.link import SqlLink
from clusters.sql.options import ISOLATION, SQL_OPTIONS
from clusters.sql.relaxations import POSTGRESQL_RELAXED
from clusters.sql.schema_changes import ChangingSchema

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
