CREATE TABLE fencepost.merge_groups (
    tenant text NOT NULL,
    forge_instance text NOT NULL,
    repo_id bigint NOT NULL,
    head_sha text NOT NULL,
    numbers bigint[] NOT NULL,
    gone_at timestamptz,
    expires_at timestamptz NOT NULL,
    lock_only smallint NOT NULL DEFAULT 0,
    CONSTRAINT merge_groups_pk PRIMARY KEY (tenant, forge_instance, repo_id, head_sha),
    CONSTRAINT merge_groups_lock_only_check CHECK (lock_only = 0)
);
CREATE INDEX merge_groups_expires_at_idx ON fencepost.merge_groups (expires_at);
