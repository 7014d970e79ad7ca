CREATE TABLE fencepost.endpoints (
    tenant text NOT NULL,
    name text NOT NULL,
    forge text NOT NULL,
    forge_instance text NOT NULL,
    proof text NOT NULL,
    routes jsonb NOT NULL,
    bot_ids bigint[] NOT NULL,
    wanted_events text[] NOT NULL,
    drafts text NOT NULL,
    body_limit_bytes bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz,
    CONSTRAINT endpoints_pk PRIMARY KEY (tenant, name),
    CONSTRAINT endpoints_forge_check CHECK (forge IN ('forgejo', 'gitea', 'github', 'gitlab')),
    CONSTRAINT endpoints_proof_check
        CHECK (proof = 'signature' OR proof = 'token' AND forge = 'gitlab'),
    CONSTRAINT endpoints_routes_check CHECK (jsonb_array_length(routes) > 0),
    CONSTRAINT endpoints_drafts_check CHECK (drafts IN ('ignore', 'take')),
    CONSTRAINT endpoints_body_limit_bytes_check CHECK (body_limit_bytes >= 0)
);

CREATE TABLE fencepost.endpoint_secrets (
    tenant text NOT NULL,
    endpoint text NOT NULL,
    version bigint NOT NULL,
    sealing_key_id text NOT NULL,
    wrapped_key bytea NOT NULL,
    ciphertext bytea NOT NULL,
    live_from timestamptz NOT NULL DEFAULT clock_timestamp(),
    live_until timestamptz,
    CONSTRAINT endpoint_secrets_pk PRIMARY KEY (tenant, endpoint, version),
    CONSTRAINT endpoint_secrets_tenant_fk
        FOREIGN KEY (tenant, endpoint) REFERENCES fencepost.endpoints (tenant, name),
    CONSTRAINT endpoint_secrets_version_check CHECK (version >= 1),
    CONSTRAINT endpoint_secrets_wrapped_key_check CHECK (octet_length(wrapped_key) = 60)
);
CREATE UNIQUE INDEX endpoint_secrets_newest_key ON fencepost.endpoint_secrets (tenant, endpoint)
    WHERE live_until IS NULL;
