"""Readers of the results of benchmark clients, a module for each."""
