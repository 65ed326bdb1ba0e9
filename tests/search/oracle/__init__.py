"""The promises that a case must keep, one module each."""
