ALTER TABLE fencepost.endpoints ADD COLUMN trusted_ids bigint[] NOT NULL DEFAULT '{}';
