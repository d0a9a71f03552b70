DELETE FROM batches WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
