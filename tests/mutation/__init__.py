"""A mutation check of the engine: see `run`."""
