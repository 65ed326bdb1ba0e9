"""`paceline completion`: a script by which a shell completes commands, options and their values."""

from __future__ import annotations

from typing import Literal

__all__ = ["completion"]


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script by which a shell completes commands, options, presets and files.

    bash: paceline completion bash > ~/.local/share/bash-completion/completions/paceline

    zsh: paceline completion zsh > DIR/_paceline, where DIR is in fpath before compinit runs

    fish: paceline completion fish > ~/.config/fish/completions/paceline.fish

    Parameters
    ----------
    shell
        The shell that reads the script.
    """
    from paceline.cli.app import app

    print(app.generate_completion(shell=shell))
