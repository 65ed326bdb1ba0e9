"""Random cases: one module a mechanism, each drawn from a `Source`."""
