-- Of several outcomes of one task the one recorded last holds; one given twice stands here twice.
CREATE TABLE IF NOT EXISTS outcomes (
    task_id String,
    outcome LowCardinality(String),
    score Nullable(Float64),
    recorded_ns Int64,
    arrived_ns Int64
) ENGINE = MergeTree ORDER BY (task_id, recorded_ns)
