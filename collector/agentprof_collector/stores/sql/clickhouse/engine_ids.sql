-- In which traces a span of an engine has an id, by the hash of the id.
CREATE TABLE IF NOT EXISTS engine_ids (
    id UInt64,
    trace_id String
) ENGINE = ReplacingMergeTree ORDER BY (id, trace_id)
