-- Not those that a task which is left may be added up with again. It began early enough for that: few did. No time
-- is below 0, so that nothing that is taken away from one is beyond its type.
DELETE FROM energy_windows
WHERE end_ns < $before_ns AND arrived_ns < $before_ns AND NOT EXISTS (
    FROM tasks
    WHERE tasks.start_ns - $around_ns < $before_ns
        AND tasks.start_ns - $around_ns < energy_windows.end_ns AND tasks.end_ns > energy_windows.start_ns - $around_ns
);
