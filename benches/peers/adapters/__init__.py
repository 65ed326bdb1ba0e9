"""The simulators, a module each."""
