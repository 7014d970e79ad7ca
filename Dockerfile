# One image for every part of the suite. The command says which part runs:
#
#   python -m services.ingress       one service; likewise dispatcher, publisher, watchdog
#   python -m services migrate       the step before services start
#   python -m services bootstrap     the first API keys
#   (none)                           the whole suite with a database of its own
#
# The base needs Python >= 3.11 as python3, with its venv module, and useradd.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
# Another package index than the public one, if any.
ARG PIP_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 \
    UV_NO_CACHE=1 UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
WORKDIR /app
COPY requirements-install.lock ./
RUN python3 -m venv /build \
 && /build/bin/python -m pip install --quiet --require-hashes --only-binary :all: \
    --requirement requirements-install.lock
COPY requirements.lock ./
RUN python3 -m venv --without-pip /venv \
 && ${PIP_INDEX_URL:+env UV_DEFAULT_INDEX="$PIP_INDEX_URL"} /build/bin/uv pip install --quiet \
    --python /venv/bin/python --require-hashes --only-binary :all: --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY protos protos
COPY sdk sdk
# Editable, as everywhere: the one copy of the SDK is the one in this folder.
RUN /build/bin/python -m hatchling build --target wheel:editable --directory /wheel \
 && /build/bin/uv pip install --quiet --python /venv/bin/python --no-deps --offline /wheel/*.whl
COPY shared shared
COPY services services
COPY deploy deploy
# The services cannot write bytecode; and a clone may be unreadable to others than its owner.
RUN /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash deploy sdk services shared \
 && chmod -R u=rwX,go=rX .

FROM ${BASE}
# An account with a name, as PostgreSQL refuses root and users without one.
RUN groupadd --gid 10001 fencepost \
 && useradd --uid 10001 --gid 10001 --no-log-init --shell /usr/sbin/nologin \
    --home-dir /var/lib/fencepost --create-home fencepost \
 && chmod 0700 /var/lib/fencepost \
 && install --directory --owner 10001 --group 10001 --mode 0755 /secrets /secrets/database \
 && for holder in owner ingress dispatcher publisher watchdog operator worker; do \
      install --directory --owner 10001 --group 10001 --mode 0700 "/secrets/$holder" || exit; \
    done
COPY --from=build /venv /venv
COPY --from=build /app /app
LABEL org.opencontainers.image.title=fencepost org.opencontainers.image.licenses=Apache-2.0
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
EXPOSE 7100 7101 7102 7103 7104
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python", "-I", "-S", "deploy/healthcheck.py"]
CMD ["python", "-m", "services", "--data-folder", "/var/lib/fencepost", "--logs", "here"]
