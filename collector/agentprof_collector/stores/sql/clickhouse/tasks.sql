-- A cache of the summaries. The version puts the row made from more spans first, then from more facts, then the
-- one written last.
CREATE TABLE IF NOT EXISTS tasks (
    task_id String,
    version UInt128,
    parent_id Nullable(String),
    name String,
    outcome LowCardinality(Nullable(String)),
    start_ns Int64,
    end_ns Int64,
    labels Map(String, String),
    services Array(String),
    trace_ids Array(String),
    summary String CODEC(ZSTD(1)),
    exact Bool,
    cost_complete Bool,
    {figures}
) ENGINE = ReplacingMergeTree(version) ORDER BY task_id
