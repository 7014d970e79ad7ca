CREATE TABLE fencepost.queues (
    tenant text NOT NULL,
    name text NOT NULL,
    retries_max integer NOT NULL,
    retry_delays_ms bigint[] NOT NULL,
    retry_cap_ms bigint,
    retry_jitter_percent smallint NOT NULL DEFAULT 0,
    lease_ms bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_at timestamptz,
    CONSTRAINT queues_pk PRIMARY KEY (tenant, name),
    CONSTRAINT queues_retries_max_check CHECK (retries_max >= 0),
    CONSTRAINT queues_retry_delays_ms_check
        CHECK (cardinality(retry_delays_ms) > 0 AND 0 <= ALL (retry_delays_ms)),
    CONSTRAINT queues_retry_cap_ms_check CHECK (retry_cap_ms > 0),
    CONSTRAINT queues_retry_jitter_percent_check CHECK (retry_jitter_percent BETWEEN 0 AND 100),
    CONSTRAINT queues_lease_ms_check CHECK (lease_ms > 0)
);
