-- In which traces a call has an id, by the hash of the id.
CREATE TABLE IF NOT EXISTS call_ids (
    id UInt64,
    trace_id String
) ENGINE = ReplacingMergeTree ORDER BY (id, trace_id)
