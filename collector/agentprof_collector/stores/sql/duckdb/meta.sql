-- One row.
CREATE TABLE IF NOT EXISTS agentprof_meta (schema_version INTEGER NOT NULL, added_up_to BIGINT NOT NULL);
