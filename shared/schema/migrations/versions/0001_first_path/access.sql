CREATE TABLE fencepost.api_keys (
    key_id text NOT NULL,
    tenant text,
    label text NOT NULL,
    scopes text[] NOT NULL,
    secret_sha256 bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    rotated_from text,
    ends_at timestamptz,
    CONSTRAINT api_keys_pk PRIMARY KEY (key_id),
    CONSTRAINT api_keys_secret_sha256_check CHECK (octet_length(secret_sha256) = 32),
    CONSTRAINT api_keys_scopes_check CHECK (cardinality(scopes) > 0)
);
CREATE INDEX api_keys_tenant_created_at_idx ON fencepost.api_keys (tenant, created_at);
CREATE UNIQUE INDEX api_keys_bootstrap_key ON fencepost.api_keys (label)
    WHERE created_by = 'bootstrap';
