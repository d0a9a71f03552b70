DELETE FROM call_ids WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));
