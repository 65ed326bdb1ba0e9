"""A case as a user would write it, in the classes of the public API."""
