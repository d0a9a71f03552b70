-- Append-only. What accelerators of endpoints took, as measured; a window given twice stands here twice.
CREATE TABLE IF NOT EXISTS energy_windows (
    server VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    start_ns BIGINT NOT NULL,
    end_ns BIGINT NOT NULL,
    energy_uj BIGINT NOT NULL,
    running_low BIGINT NOT NULL,
    running_high BIGINT NOT NULL,
    tokens BIGINT,
    arrived_ns BIGINT NOT NULL
);
