"""A case written with the classes of the public API."""
