"""What must hold of a case: one module a promise."""
