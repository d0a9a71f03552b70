-- By trace id; a span that was delivered twice in the same words becomes one row when parts are merged.
CREATE TABLE IF NOT EXISTS spans (
    trace_id String,
    span_id String,
    arrived_ns Int64,
    body String CODEC(ZSTD(1)),
    body_hash UInt64 MATERIALIZED cityHash64(body),
    INDEX arrived arrived_ns TYPE minmax GRANULARITY 1
) ENGINE = ReplacingMergeTree ORDER BY (trace_id, span_id, body_hash)
