"""Altair charts of small frames."""
