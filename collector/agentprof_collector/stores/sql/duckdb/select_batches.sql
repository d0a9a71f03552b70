-- Only the narrow column is scanned; what is found is then fetched by its place.
SELECT rowid FROM batches WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
