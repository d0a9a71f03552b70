SELECT DISTINCT server, node, start_ns, end_ns, energy_uj, running_low, running_high, tokens
FROM energy_windows
WHERE start_ns < $end_ns AND end_ns > $start_ns AND lower(server) IN (SELECT unnest($servers::VARCHAR[]));
