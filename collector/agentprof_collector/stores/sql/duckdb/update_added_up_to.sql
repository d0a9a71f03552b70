UPDATE agentprof_meta SET added_up_to = $to;
