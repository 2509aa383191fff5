#!/bin/sh
# Run a command with a PostgreSQL server of its own, thrown away afterwards:
#
#     tests/with_postgres.sh .venv/bin/pytest -m postgres
#
# The server's URL is in CSE_TEST_POSTGRES. Needs PostgreSQL's programs (Debian: postgresql) and
# Python. PostgreSQL refuses to run as root, so root runs it as the user `postgres`.
set -eu

bin=$(command -v initdb >/dev/null && dirname "$(command -v initdb)" ||
    ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -n "$bin" ] || { echo "$0: no PostgreSQL here; apt-get install postgresql" >&2; exit 1; }

folder=$(mktemp -d)
as_owner() { "$@"; }
if [ "$(id -u)" = 0 ]; then
    chown postgres "$folder"
    as_owner() { runuser -u postgres -- "$@"; }
fi
stop() {
    as_owner "$bin/pg_ctl" stop --silent --mode=immediate --pgdata="$folder/data" || true
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM

# A password that only survives if every URL is quoted and parsed as it should be.
as_owner sh -c "printf %s 'p@ss%w/rd' > '$folder/password'"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
as_owner "$bin/initdb" --pgdata="$folder/data" --username=cse --auth=scram-sha-256 \
    --pwfile="$folder/password" --encoding=UTF8 --no-locale --no-sync >"$folder/initdb.log"
as_owner "$bin/pg_ctl" start --silent --wait --pgdata="$folder/data" --log="$folder/log" \
    --options="-h 127.0.0.1 -p $port -k $folder -c fsync=off"

CSE_TEST_POSTGRES="postgresql+psycopg://cse:p%40ss%25w%2Frd@127.0.0.1:$port/postgres" "$@"
