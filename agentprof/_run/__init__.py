"""`agentprof run`: any Python program, unchanged, and what its tasks cost when it has ended.

`command` is what the user types, `process` runs the program, `child` is what happens inside it, `notes` is
what the processes of the program leave for us, `findings` says what the user should know.
"""
