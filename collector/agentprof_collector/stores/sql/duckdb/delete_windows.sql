DELETE FROM energy_windows WHERE end_ns < $before_ns AND arrived_ns < $before_ns;
