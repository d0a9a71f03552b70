-- A cache of the summaries: everything here can be made again from spans and outcomes.
CREATE TABLE IF NOT EXISTS tasks (
    task_id VARCHAR PRIMARY KEY,
    name VARCHAR NOT NULL,
    outcome VARCHAR,
    start_ns BIGINT NOT NULL,
    trace_ids VARCHAR[] NOT NULL,
    spans BIGINT NOT NULL,
    facts BIGINT NOT NULL,
    summary VARCHAR NOT NULL
);
