"""Timeouts for PostgreSQL, and the SQL grants by which several users share a database.

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


def connection_timeouts(place: URL) -> dict[str, int]:
    """Make connection options by which a server that is silent for some seconds counts as down.

    Options in the URL take precedence. Returns {} for databases other than PostgreSQL.
    """
    if place.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in _TIMEOUTS.items() if name not in place.query}


def grant_statements(*, owner: str, driver: str, reader: str) -> str:
    """Write the SQL by which three roles share a database, without naming any table.

    It creates missing roles. The owner gets all existing tables and types, and is the only one who
    can create, change, drop and rebuild them; drivers read and write rows, and readers read them.
    This also holds for tables that the owner creates later. Running the SQL again changes nothing.

    Args:
        owner: a login that creates and upgrades the tables.
        driver: a group of logins that run sweeps, and write notes and requests.
        reader: a group of logins that only read.
    """
    roles = {owner: "LOGIN", driver: "NOLOGIN", reader: "NOLOGIN"}
    make = [
        f"  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {_quote_text(role)}) THEN\n"
        f"    CREATE ROLE {_quote_name(role)} {can};\n"
        "  END IF;"
        for role, can in roles.items()
    ]
    names = {"owner": owner, "driver": driver, "reader": reader}
    quoted = {name: _quote_name(role) for name, role in names.items()}
    return _GRANTS.format(roles="\n".join(make), owner_text=_quote_text(owner), **quoted)


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_GRANTS = """\
DO $$ BEGIN
{roles}
END $$;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO {owner}, {driver}, {reader};
GRANT CREATE ON SCHEMA public TO {owner};
DO $$ BEGIN
  EXECUTE format('GRANT CREATE ON DATABASE %I TO %I', current_database(), {owner_text});
END $$;
DO $$ DECLARE one record; BEGIN
  FOR one IN SELECT oid::regclass AS name FROM pg_class
      WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') LOOP
    EXECUTE format('ALTER TABLE %s OWNER TO %I', one.name, {owner_text});
  END LOOP;
  FOR one IN SELECT oid::regtype AS name FROM pg_type
      WHERE typnamespace = 'public'::regnamespace AND typtype = 'e' LOOP
    EXECUTE format('ALTER TYPE %s OWNER TO %I', one.name, {owner_text});
  END LOOP;
END $$;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO {driver}, {reader};
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {driver};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {driver};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public
  GRANT SELECT ON TABLES TO {driver}, {reader};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public
  GRANT INSERT, UPDATE, DELETE ON TABLES TO {driver};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public
  GRANT USAGE ON SEQUENCES TO {driver};
"""
