CREATE TABLE IF NOT EXISTS agentprof_meta (schema_version INTEGER NOT NULL);
