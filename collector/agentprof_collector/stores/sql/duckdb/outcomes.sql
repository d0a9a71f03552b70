-- Append-only. Of several outcomes of one task the one recorded last holds.
CREATE TABLE IF NOT EXISTS outcomes (
    task_id VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    score DOUBLE,
    recorded_ns BIGINT NOT NULL,
    arrived_ns BIGINT NOT NULL
);
