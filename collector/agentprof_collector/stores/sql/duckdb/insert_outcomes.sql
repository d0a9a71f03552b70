INSERT INTO outcomes
SELECT DISTINCT *, $arrived_ns
FROM (
    SELECT
        unnest($task_id::VARCHAR[]) AS task_id,
        unnest($outcome::VARCHAR[]) AS outcome,
        unnest($score::DOUBLE[]) AS score,
        unnest($recorded_ns::BIGINT[]) AS recorded_ns
) AS given
WHERE NOT EXISTS (
    FROM outcomes
    WHERE outcomes.task_id = given.task_id AND outcomes.outcome = given.outcome
        AND outcomes.score IS NOT DISTINCT FROM given.score AND outcomes.recorded_ns = given.recorded_ns
);
