"""Azure's LLM inference traces.

CSV of TIMESTAMP, ContextTokens, GeneratedTokens; stamps to 100 ns, without a
zone in 2023 and with one in 2024. Time counts from the earliest stamp.
Source: github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md (Patel et al., ISCA 2024).
"""

from __future__ import annotations

import polars as pl

from paceline.trace.columns import stamps, tokens
from paceline.trace.delimited import read_delimited
from paceline.trace.detection import Recognised
from paceline.trace.parsed import Parsed

__all__ = ["read_azure"]


def read_azure(found: Recognised, name: str) -> Parsed:
    """Read an Azure trace."""
    table, rows = read_delimited(found.text, name, found.columns, found.limits)
    frame = pl.DataFrame(
        {
            "arrival": stamps(table.get_column("TIMESTAMP"), rows),
            "prompt_tokens": tokens(table.get_column("ContextTokens"), rows),
            "output_tokens": tokens(table.get_column("GeneratedTokens"), rows),
        }
    )
    return Parsed(frame=frame, rows=rows)
