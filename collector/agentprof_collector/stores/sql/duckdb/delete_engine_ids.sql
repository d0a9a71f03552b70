DELETE FROM engine_ids WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
