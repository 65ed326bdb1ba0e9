"""Readers, one a format: recognised content in, rows of the schema out."""

from __future__ import annotations
