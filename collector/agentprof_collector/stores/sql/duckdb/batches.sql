-- Append-only: spans of one trace that were written together, as a JSON list packed by zlib. No key: an index
-- halves the insert rate as the file grows and makes it several times larger. Found by a scan of the trace ids
-- alone; with compression by DuckDB reading one body would unpack its 2,047 neighbours too.
CREATE TABLE IF NOT EXISTS batches (
    trace_id VARCHAR NOT NULL,
    arrived_ns BIGINT NOT NULL,
    spans INTEGER NOT NULL,
    body BLOB NOT NULL USING COMPRESSION uncompressed
);
