SELECT added_up_to FROM agentprof_meta;
