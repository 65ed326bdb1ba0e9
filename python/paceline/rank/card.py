"""The model card of a saved ranker."""

from __future__ import annotations

from paceline.rank.manifest import Manifest

__all__ = ["card"]


def card(manifest: Manifest) -> str:
    """Return the card in Markdown: what the ranker is, what it was made from, and how well it ranks."""
    settings = ", ".join(
        f"{name} {value}" for name, value in {**manifest.objective_settings, **manifest.settings}.items()
    )
    data = manifest.data
    lines = [
        f"# A {manifest.objective} ranker of the {manifest.family} family",
        "",
        "It scores prompts by the length that their answers are expected to have, higher for longer. "
        "`paceline.rank.load` reads it.",
        "",
        f"- Made by Paceline {manifest.paceline}, seed {manifest.seed}: {settings}.",
        f"- Trained on {data.samples:,} samples of {data.prompts:,} prompts in {data.groups} group(s); "
        f"SHA-256 of "
        f"the data {data.sha256}.",
    ]
    lines += [
        f"- Kendall's tau-b, {name}: {each.tau:.3f}, 95% interval {each.low:.3f} to {each.high:.3f} "
        f"({each.of}; {each.samples:,} samples)."
        for name, each in manifest.quality.items()
    ]
    if manifest.note:
        lines += ["", manifest.note]
    return "\n".join(lines) + "\n"
