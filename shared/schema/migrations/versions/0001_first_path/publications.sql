CREATE TABLE fencepost.publications (
    publication_id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    key text NOT NULL,
    key_label text NOT NULL,
    action text NOT NULL,
    generation bigint NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    target text NOT NULL,
    ordinal integer NOT NULL,
    intent_id bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT publications_pk PRIMARY KEY (publication_id),
    CONSTRAINT publications_identity_key
        UNIQUE (tenant, key, action, generation, name, kind, target, ordinal)
);
CREATE INDEX publications_intent_id_idx ON fencepost.publications (intent_id);
CREATE INDEX publications_tenant_key_idx ON fencepost.publications (tenant, key);

CREATE TABLE fencepost.publication_attempts (
    attempt_id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    publication_id bigint NOT NULL,
    attempt integer NOT NULL,
    status text NOT NULL,
    holder text NOT NULL,
    epoch bigint NOT NULL,
    intent_id bigint NOT NULL,
    claim_token text NOT NULL,
    checkpoint_version bigint NOT NULL,
    digest bytea NOT NULL,
    request bytea NOT NULL,
    evidence text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at timestamptz,
    remote_id text,
    remote_url text,
    result bytea,
    detail text NOT NULL DEFAULT '',
    traceparent text NOT NULL DEFAULT '',
    CONSTRAINT publication_attempts_pk PRIMARY KEY (attempt_id),
    CONSTRAINT publication_attempts_status_check
        CHECK (status IN ('running', 'succeeded', 'uncertain', 'refused', 'absent')),
    CONSTRAINT publication_attempts_publication_id_attempt_key UNIQUE (publication_id, attempt),
    CONSTRAINT publication_attempts_settled_check
        CHECK ((status = 'running') = (settled_at IS NULL)),
    CONSTRAINT publication_attempts_digest_check CHECK (octet_length(digest) = 32),
    CONSTRAINT publication_attempts_checkpoint_version_check CHECK (checkpoint_version >= 1),
    CONSTRAINT publication_attempts_publication_id_fk
        FOREIGN KEY (publication_id) REFERENCES fencepost.publications (publication_id)
);
CREATE UNIQUE INDEX publication_attempts_blocking_key
    ON fencepost.publication_attempts (publication_id)
    WHERE status IN ('running', 'succeeded', 'uncertain');
CREATE INDEX publication_attempts_in_doubt_idx ON fencepost.publication_attempts (tenant)
    WHERE status IN ('running', 'uncertain');

CREATE TABLE fencepost.holds (
    hold_id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text,
    action text,
    forge_instance text,
    repo_id bigint,
    number bigint,
    reason text NOT NULL,
    placed_by text NOT NULL,
    placed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    released_by text,
    released_at timestamptz,
    CONSTRAINT holds_pk PRIMARY KEY (hold_id),
    CONSTRAINT holds_repo_check CHECK (num_nulls(forge_instance, repo_id) IN (0, 2)),
    CONSTRAINT holds_number_check CHECK (number IS NULL OR repo_id IS NOT NULL),
    CONSTRAINT holds_released_check CHECK (num_nulls(released_by, released_at) IN (0, 2))
);
CREATE INDEX holds_tenant_idx ON fencepost.holds (tenant) WHERE released_at IS NULL;
