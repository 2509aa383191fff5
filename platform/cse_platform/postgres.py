"""Timeouts for PostgreSQL.

Without timeouts, TCP waits a quarter of an hour for an answer on a broken connection.
"""

from sqlalchemy import URL

_TIMEOUTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 10_000,  # milliseconds until sent data must be acknowledged
    "keepalives_idle": 10,  # while waiting for an answer
    "keepalives_interval": 5,
    "keepalives_count": 2,
}
"""Settings of libpq, in seconds unless noted."""


def connection_timeouts(url: URL) -> dict[str, int]:
    """Make connection options by which a server that is silent for some seconds counts as down.

    Options in the URL take precedence. Returns {} for databases other than PostgreSQL.
    """
    if url.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in _TIMEOUTS.items() if name not in url.query}
