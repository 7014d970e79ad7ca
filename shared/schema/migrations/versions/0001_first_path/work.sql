CREATE SEQUENCE fencepost.ready_number AS bigint CACHE 1;

CREATE TABLE fencepost.intents (
    intent_id bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL DEFAULT 0,
    key text NOT NULL,
    key_label text NOT NULL,
    action text NOT NULL,
    generation bigint NOT NULL,
    forge_instance text,
    repo_id bigint,
    number bigint,
    head_sha text,
    suffix text NOT NULL DEFAULT '',
    delivery_seq bigint,
    payload bytea,
    content_type text NOT NULL,
    schema_name text NOT NULL DEFAULT '',
    traceparent text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status text NOT NULL DEFAULT 'open',
    attempts integer NOT NULL DEFAULT 0,
    settled_at timestamptz,
    settled_by bigint,
    reason text NOT NULL DEFAULT '',
    result bytea,
    CONSTRAINT intents_pk PRIMARY KEY (intent_id),
    CONSTRAINT intents_status_check
        CHECK (status IN ('open', 'succeeded', 'duplicate', 'joined', 'superseded', 'abandoned',
            'cancelled', 'dead', 'redriven')),
    CONSTRAINT intents_settled_check CHECK ((status = 'open') = (settled_at IS NULL)),
    CONSTRAINT intents_payload_check CHECK ((payload IS NULL) = (delivery_seq IS NOT NULL)),
    CONSTRAINT intents_key_parts_check
        CHECK (
            num_nulls(forge_instance, repo_id, number) IN (0, 3)
            AND (head_sha IS NULL OR number IS NOT NULL)
        )
);
CREATE INDEX intents_dead_idx ON fencepost.intents (tenant) WHERE status = 'dead';
CREATE INDEX intents_delivery_seq_idx ON fencepost.intents (delivery_seq)
    WHERE delivery_seq IS NOT NULL;
CREATE INDEX intents_tenant_forge_instance_repo_id_number_idx
    ON fencepost.intents (tenant, forge_instance, repo_id, number);
CREATE INDEX intents_tenant_key_action_idx ON fencepost.intents (tenant, key, action);
CREATE UNIQUE INDEX intents_manual_key
    ON fencepost.intents (tenant, forge_instance, repo_id, number, suffix, action)
    WHERE suffix LIKE 'manual-%' AND delivery_seq IS NOT NULL AND status IN ('open', 'succeeded');
CREATE UNIQUE INDEX intents_occupied_key ON fencepost.intents (tenant, key, action, generation)
    WHERE delivery_seq IS NOT NULL AND status IN ('open', 'succeeded');

CREATE TABLE fencepost.dead_letters (
    intent_id bigint NOT NULL,
    tenant text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL,
    key_label text NOT NULL,
    action text NOT NULL,
    generation bigint NOT NULL,
    attempts integer NOT NULL,
    reason text NOT NULL,
    died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    redriven_as bigint,
    redriven_at timestamptz,
    CONSTRAINT dead_letters_pk PRIMARY KEY (intent_id),
    CONSTRAINT dead_letters_redriven_check CHECK ((redriven_as IS NULL) = (redriven_at IS NULL))
);
CREATE INDEX dead_letters_tenant_died_at_idx ON fencepost.dead_letters (tenant, died_at);

CREATE TABLE fencepost.ready (
    queue text NOT NULL,
    priority smallint NOT NULL,
    tenant text NOT NULL,
    number bigint NOT NULL DEFAULT nextval('fencepost.ready_number'),
    intent_id bigint NOT NULL,
    key text NOT NULL,
    action text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    entered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ready_pk PRIMARY KEY (queue, priority, tenant, number)
);
CREATE UNIQUE INDEX ready_intent_id_key ON fencepost.ready (intent_id);

CREATE TABLE fencepost.waiting (
    intent_id bigint NOT NULL,
    tenant text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    key text NOT NULL,
    action text NOT NULL,
    attempts integer NOT NULL,
    waits_on text NOT NULL,
    publication_id bigint,
    due_at timestamptz NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason text NOT NULL DEFAULT '',
    CONSTRAINT waiting_pk PRIMARY KEY (intent_id),
    CONSTRAINT waiting_waits_on_check CHECK (waits_on IN ('time', 'lease', 'publication', 'head')),
    CONSTRAINT waiting_publication_id_check
        CHECK ((waits_on = 'publication') = (publication_id IS NOT NULL))
);
CREATE INDEX waiting_due_idx ON fencepost.waiting (due_at) WHERE waits_on <> 'head';
CREATE INDEX waiting_head_idx ON fencepost.waiting (due_at) WHERE waits_on = 'head';
CREATE INDEX waiting_lease_idx ON fencepost.waiting (tenant, key, action)
    WHERE waits_on = 'lease';
CREATE INDEX waiting_publication_id_idx ON fencepost.waiting (publication_id)
    WHERE publication_id IS NOT NULL;

CREATE TABLE fencepost.leases (
    tenant text NOT NULL,
    key text NOT NULL,
    action text NOT NULL,
    generation bigint NOT NULL,
    state text NOT NULL,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    session_id text,
    intent_id bigint NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    attempts integer NOT NULL,
    grant_id text NOT NULL,
    lease_ms bigint NOT NULL,
    granted_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    claimable_at timestamptz NOT NULL,
    settled_at timestamptz,
    lock_only smallint NOT NULL DEFAULT 0,
    CONSTRAINT leases_pk PRIMARY KEY (tenant, key, action),
    CONSTRAINT leases_lock_only_check CHECK (lock_only = 0),
    CONSTRAINT leases_state_check
        CHECK (state IN ('free', 'running', 'succeeded', 'superseded', 'abandoned', 'dead')),
    CONSTRAINT leases_epoch_check CHECK (epoch >= 1),
    CONSTRAINT leases_settled_check CHECK ((state = 'running') = (settled_at IS NULL))
);
CREATE INDEX leases_claimable_at_idx ON fencepost.leases (claimable_at) WHERE state = 'running';
CREATE INDEX leases_grant_id_idx ON fencepost.leases (grant_id) WHERE state = 'running';
CREATE INDEX leases_intent_id_idx ON fencepost.leases (intent_id) WHERE state = 'running';
CREATE INDEX leases_session_id_idx ON fencepost.leases (session_id) WHERE state = 'running';

CREATE TABLE fencepost.dispatches (
    tenant text NOT NULL,
    key text NOT NULL,
    action text NOT NULL,
    epoch bigint NOT NULL,
    intent_id bigint NOT NULL,
    generation bigint NOT NULL,
    holder text NOT NULL,
    attempt integer NOT NULL,
    granted_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome text NOT NULL,
    outcome_sha256 bytea NOT NULL,
    disposition text,
    reason text NOT NULL DEFAULT '',
    CONSTRAINT dispatches_pk PRIMARY KEY (tenant, key, action, epoch),
    CONSTRAINT dispatches_outcome_check
        CHECK (outcome IN ('completed', 'failed', 'released', 'displaced')),
    CONSTRAINT dispatches_disposition_check
        CHECK (disposition IN ('transient', 'deterministic', 'permanent', 'blocked')),
    CONSTRAINT dispatches_failed_check CHECK ((outcome = 'failed') = (disposition IS NOT NULL))
);
CREATE INDEX dispatches_intent_id_idx ON fencepost.dispatches (intent_id);

CREATE TABLE fencepost.sessions (
    session_id text NOT NULL,
    tenant text NOT NULL,
    key_id text NOT NULL,
    queues text[] NOT NULL,
    version text NOT NULL DEFAULT '',
    labels jsonb NOT NULL DEFAULT '{}',
    replica text NOT NULL,
    state text NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heard_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    CONSTRAINT sessions_pk PRIMARY KEY (session_id),
    CONSTRAINT sessions_state_check CHECK (state IN ('open', 'detached', 'ended')),
    CONSTRAINT sessions_ended_check CHECK ((state = 'ended') = (ended_at IS NOT NULL))
);
CREATE INDEX sessions_heard_at_idx ON fencepost.sessions (heard_at) WHERE state <> 'ended';
