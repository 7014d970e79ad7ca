CREATE TABLE fencepost.runs (
    run_id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    key text NOT NULL,
    action text NOT NULL,
    generation bigint NOT NULL,
    intent_id bigint NOT NULL,
    epoch bigint NOT NULL,
    version bigint NOT NULL,
    flush_id text NOT NULL,
    state bytea NOT NULL,
    state_schema_version integer NOT NULL,
    state_codec text NOT NULL DEFAULT '',
    event_cursor bigint NOT NULL DEFAULT 0,
    phase text NOT NULL DEFAULT '',
    analysis_status text NOT NULL,
    final boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    flushed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT runs_pk PRIMARY KEY (run_id),
    CONSTRAINT runs_tenant_key_action_generation_key UNIQUE (tenant, key, action, generation),
    CONSTRAINT runs_analysis_status_check
        CHECK (analysis_status IN ('unknown', 'running', 'succeeded', 'failed')),
    CONSTRAINT runs_version_check CHECK (version >= 1)
);
CREATE INDEX runs_intent_id_idx ON fencepost.runs (intent_id);

CREATE TABLE fencepost.flushes (
    tenant text NOT NULL,
    run_id bigint NOT NULL,
    flush_id text NOT NULL,
    request_sha256 bytea NOT NULL,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    state_bytes bigint NOT NULL,
    span_count integer NOT NULL,
    phase text NOT NULL DEFAULT '',
    final boolean NOT NULL,
    flushed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT flushes_pk PRIMARY KEY (run_id, flush_id),
    CONSTRAINT flushes_run_id_fk FOREIGN KEY (run_id) REFERENCES fencepost.runs (run_id)
);
CREATE UNIQUE INDEX flushes_run_id_version_idx ON fencepost.flushes (run_id, version);

CREATE TABLE fencepost.run_spans (
    span_seq bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    intent_id bigint NOT NULL,
    trace_id bytea NOT NULL,
    span_id bytea NOT NULL,
    service_name text NOT NULL,
    otlp_span bytea NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    exported_at timestamptz,
    CONSTRAINT run_spans_pk PRIMARY KEY (span_seq),
    CONSTRAINT run_spans_tenant_trace_id_span_id_key UNIQUE (tenant, trace_id, span_id)
);
CREATE INDEX run_spans_intent_id_idx ON fencepost.run_spans (intent_id);
CREATE INDEX run_spans_span_seq_idx ON fencepost.run_spans (span_seq) WHERE exported_at IS NULL;
