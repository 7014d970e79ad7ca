CREATE TABLE fencepost.schema_revision (
    singleton smallint NOT NULL DEFAULT 1,
    revision integer NOT NULL,
    oldest_code integer NOT NULL,
    migrated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schema_revision_pk PRIMARY KEY (singleton),
    CONSTRAINT schema_revision_singleton_check CHECK (singleton = 1)
);

CREATE TABLE fencepost.incarnations (
    incarnation bigint GENERATED ALWAYS AS IDENTITY,
    system_identifier text NOT NULL,
    timeline integer NOT NULL,
    database_oid bigint NOT NULL,
    observed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT incarnations_pk PRIMARY KEY (incarnation)
);

CREATE TABLE fencepost.request_ids (
    tenant text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    digest bytea NOT NULL,
    response bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT request_ids_pk PRIMARY KEY (tenant, method, request_id)
);
CREATE INDEX request_ids_created_at_idx ON fencepost.request_ids (created_at);

CREATE TABLE fencepost.audit_entries (
    entry_id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    key_id text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text NOT NULL DEFAULT '',
    detail jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT audit_entries_pk PRIMARY KEY (entry_id)
);
CREATE INDEX audit_entries_tenant_at_idx ON fencepost.audit_entries (tenant, at);
