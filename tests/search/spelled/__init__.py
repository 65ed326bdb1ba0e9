"""A case as a user would write it: schedulers, rules and monitors of the public API, from what the engine reads."""
