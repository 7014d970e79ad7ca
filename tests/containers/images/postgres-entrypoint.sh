#!/bin/sh
# Makes the cluster as the public image does, while listening on no network, and then serves.
set -eu

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  # shellcheck disable=SC2086 # words
  initdb -D "$PGDATA" -U postgres --auth-local=trust --auth-host=scram-sha-256 \
    --pwfile="$POSTGRES_PASSWORD_FILE" ${POSTGRES_INITDB_ARGS:-}
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  serving="-c unix_socket_directories=/var/run/postgresql"
  pg_ctl -D "$PGDATA" -w -o "$serving -c listen_addresses=" start
  for file in /docker-entrypoint-initdb.d/*.sql; do
    psql -v ON_ERROR_STOP=1 --no-psqlrc -h /var/run/postgresql -U postgres -d postgres -f "$file"
  done
  pg_ctl -D "$PGDATA" -w -m fast stop
fi

exec "$@" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
