CREATE TABLE fencepost.connections (
    tenant text NOT NULL,
    forge_instance text NOT NULL,
    forge text NOT NULL,
    base_url text NOT NULL,
    version bigint NOT NULL,
    sealing_key_id text NOT NULL,
    wrapped_key bytea NOT NULL,
    ciphertext bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz,
    CONSTRAINT connections_pk PRIMARY KEY (tenant, forge_instance),
    CONSTRAINT connections_forge_check CHECK (forge IN ('forgejo', 'gitea', 'github', 'gitlab')),
    CONSTRAINT connections_version_check CHECK (version >= 1),
    CONSTRAINT connections_wrapped_key_check CHECK (octet_length(wrapped_key) = 60)
);
