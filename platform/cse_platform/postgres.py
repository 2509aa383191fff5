"""Sets timeouts for PostgreSQL, and writes the grants by which several users share it.

After a cut link, TCP alone waits a quarter of an hour for an answer.
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


def grant_statements(*, owner: str, driver: str, reader: str) -> str:
    """Write the SQL by which three roles share a database; no table is named in it.

    It makes the roles that are missing. The owner gets all tables and types that are there, and
    alone makes, changes and drops them; drivers read and write rows, readers read them. This holds
    for tables that the owner makes later, too. Running it again changes nothing.

    Args:
        owner: a login, which makes and upgrades the tables.
        driver: a group of logins that run sweeps, and write notes and requests.
        reader: a group of logins that only look.
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
