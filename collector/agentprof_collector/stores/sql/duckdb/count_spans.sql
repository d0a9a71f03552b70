SELECT coalesce(sum(spans), 0) FROM batches WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
