CREATE TABLE fencepost.delivery_markers (
    tenant text NOT NULL,
    endpoint text NOT NULL,
    delivery_id text NOT NULL,
    body_sha256 bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    lock_only smallint NOT NULL DEFAULT 0,
    CONSTRAINT delivery_markers_pk PRIMARY KEY (tenant, endpoint, delivery_id),
    CONSTRAINT delivery_markers_lock_only_check CHECK (lock_only = 0)
);
CREATE INDEX delivery_markers_expires_at_idx ON fencepost.delivery_markers (expires_at);

CREATE TABLE fencepost.body_markers (
    tenant text NOT NULL,
    endpoint text NOT NULL,
    event text NOT NULL,
    body_sha256 bytea NOT NULL,
    delivery_id text NOT NULL,
    expires_at timestamptz NOT NULL,
    lock_only smallint NOT NULL DEFAULT 0,
    CONSTRAINT body_markers_pk PRIMARY KEY (tenant, endpoint, event, body_sha256),
    CONSTRAINT body_markers_lock_only_check CHECK (lock_only = 0)
);
CREATE INDEX body_markers_expires_at_idx ON fencepost.body_markers (expires_at);

CREATE TABLE fencepost.deliveries (
    delivery_seq bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    endpoint text NOT NULL,
    delivery_id text NOT NULL,
    forge text NOT NULL,
    forge_instance text NOT NULL,
    event text NOT NULL,
    event_action text NOT NULL DEFAULT '',
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    content_type text NOT NULL,
    body bytea NOT NULL,
    body_sha256 bytea NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL DEFAULT '',
    matched_delivery_id text,
    intent_ids bigint[] NOT NULL DEFAULT '{}',
    key text,
    key_label text,
    repo_id bigint,
    number bigint,
    projection jsonb NOT NULL DEFAULT '{}',
    traceparent text NOT NULL DEFAULT '',
    CONSTRAINT deliveries_pk PRIMARY KEY (delivery_seq),
    CONSTRAINT deliveries_outcome_check
        CHECK (outcome IN ('accepted', 'duplicate', 'ignored', 'refused'))
);
CREATE INDEX deliveries_tenant_delivery_id_idx ON fencepost.deliveries (tenant, delivery_id);
CREATE INDEX deliveries_tenant_endpoint_delivery_id_idx
    ON fencepost.deliveries (tenant, endpoint, delivery_id);
CREATE INDEX deliveries_tenant_forge_instance_repo_id_number_idx
    ON fencepost.deliveries (tenant, forge_instance, repo_id, number);
CREATE INDEX deliveries_tenant_received_at_idx ON fencepost.deliveries (tenant, received_at);
CREATE INDEX deliveries_last_of_endpoint_idx
    ON fencepost.deliveries (tenant, endpoint, received_at)
    WHERE delivery_seq > 0;

CREATE TABLE fencepost.change_requests (
    tenant text NOT NULL,
    forge_instance text NOT NULL,
    repo_id bigint NOT NULL,
    number bigint NOT NULL,
    forge text NOT NULL,
    repo_name text NOT NULL,
    url text NOT NULL,
    base_ref text NOT NULL DEFAULT '',
    head_sha text NOT NULL,
    generation bigint NOT NULL,
    superseded_through bigint NOT NULL DEFAULT 0,
    abandoned_through bigint NOT NULL DEFAULT 0,
    state text NOT NULL,
    forge_updated_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lock_only smallint NOT NULL DEFAULT 0,
    CONSTRAINT change_requests_pk PRIMARY KEY (tenant, forge_instance, repo_id, number),
    CONSTRAINT change_requests_lock_only_check CHECK (lock_only = 0),
    CONSTRAINT change_requests_state_check CHECK (state IN ('open', 'closed')),
    CONSTRAINT change_requests_generation_check CHECK (generation >= 1),
    CONSTRAINT change_requests_superseded_through_check CHECK (superseded_through < generation),
    CONSTRAINT change_requests_abandoned_through_check CHECK (abandoned_through <= generation)
);
CREATE INDEX change_requests_open_head_idx
    ON fencepost.change_requests (tenant, forge_instance, repo_id, head_sha) WHERE state = 'open';
CREATE INDEX change_requests_tenant_url_idx ON fencepost.change_requests (tenant, url);

CREATE TABLE fencepost.change_request_heads (
    tenant text NOT NULL,
    forge_instance text NOT NULL,
    repo_id bigint NOT NULL,
    number bigint NOT NULL,
    generation bigint NOT NULL,
    head_sha text NOT NULL,
    became_current_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT change_request_heads_pk
        PRIMARY KEY (tenant, forge_instance, repo_id, number, generation)
);
