"""Limits how long PostgreSQL servers that fall silent are waited for, as after a cut link.

Left to itself, TCP waits a quarter of an hour for an answer, and all that asks waits with it.
"""

from sqlalchemy import URL

_TIMEOUTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 10_000,  # milliseconds until what was sent must have arrived
    "keepalives_idle": 10,  # while an answer is waited for
    "keepalives_interval": 5,
    "keepalives_count": 2,
}
"""Settings of libpq; in seconds, unless they say otherwise."""


def connection_timeouts(place: URL) -> dict[str, int]:
    """Make the connection options by which a server that is silent for seconds counts as down.

    Options of the URL itself take precedence. There are none for other databases.
    """
    if place.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in _TIMEOUTS.items() if name not in place.query}
