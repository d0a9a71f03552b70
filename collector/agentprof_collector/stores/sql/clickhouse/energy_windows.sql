-- What accelerators of endpoints took, as measured; a window given twice stands here twice.
CREATE TABLE IF NOT EXISTS energy_windows (
    server String,
    node String,
    start_ns Int64,
    end_ns Int64,
    energy_uj Int64,
    running_low Int64,
    running_high Int64,
    tokens Nullable(Int64),
    arrived_ns Int64
) ENGINE = MergeTree ORDER BY (server, start_ns)
