-- What was said last holds.
CREATE TABLE IF NOT EXISTS added_up (
    id UInt8,
    arrived_ns Int64,
    written_ns UInt64
) ENGINE = ReplacingMergeTree(written_ns) ORDER BY id
