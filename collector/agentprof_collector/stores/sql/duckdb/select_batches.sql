-- Only narrow columns are scanned; what is found is then fetched by its place.
SELECT rowid, trace_id, arrived_ns FROM batches WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
