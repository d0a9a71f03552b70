"""The energy of a call as an interval of joules, with what it includes and how it is known."""
