-- Append-only. No primary key: it halves the insert rate as the file grows and makes it several times larger.
CREATE TABLE IF NOT EXISTS spans (
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    start_ns BIGINT NOT NULL,
    body VARCHAR NOT NULL
);
