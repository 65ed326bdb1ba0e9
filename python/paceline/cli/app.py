"""The commands by name, and the handling of their errors."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, MissingArgumentError, UnusedCliTokensError

from paceline.cli.examples import epilogue
from paceline.cli.output import complain
from paceline.errors import InternalError, PacelineError

__all__ = ["FAILED", "USAGE", "app", "run"]

USAGE = 2
"""The exit status where the caller can put it right."""

FAILED = 1

# Commands are named by their place, so that one does not wait for the imports of the others;
# the overview has its line of help from here for the same reason.
_COMMANDS = {
    "replay": "Replay a trace on a cluster and summarize what users would have felt.",
    "report": "Write saved results as one HTML file of charts and tables.",
    "capacity": "Search for the highest request rate that meets an SLO.",
    "plan": "Search for the fewest GPUs that meet an SLO at a rate.",
    "compare": "Compare policies on the same requests, with confidence intervals.",
    "compare-bench": "Replay what a benchmark client measured, and compare latencies and throughput.",
    "export": "Write a saved result in the format of vllm bench, aiperf, llm-d or OpenMetrics.",
    "sweep": "Replay a grid of configurations into one dataset, on all cores.",
    "trace": "Summarize a trace, or convert, cut, scale or sample it.",
    "hits": "Draw the hit rate of a prefix cache against its capacity.",
    "rank": "Train rankers of prompts by the length of their answers, evaluate them, and score prompts.",
    "presets": "List the workloads that synthesize draws, and where their numbers come from.",
    "synthesize": "Make a trace from published statistics and write it to a file.",
    "conformance": "Hold the engine against decision logs of real schedulers.",
    "validate": "Replay a measured run and compare latencies with what was measured.",
    "calibrate": "Fit a roofline to what was observed, and keep where it comes from.",
    "study": "Do a published evaluation again, with the paper's numbers beside ours.",
    "models": "List the models that --model knows.",
    "gpus": "List the GPUs that --gpu knows.",
    "profiles": "Import kernel profiles, list them, and look into one.",
    "profile": "Measure a model's kernels on the GPU at hand, with PyTorch.",
    "policies": "List the policies that --policy knows.",
    "completion": "Print a script by which bash, zsh or fish completes commands and options.",
    "clean": "Remove what killed runs left half written.",
}


def _version() -> str:
    from paceline._core import VERSION

    return VERSION


app = App(
    name="paceline",
    help="Replay LLM serving traces through schedulers, and say what users would have felt.",
    version=_version,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
# Commands that have commands of their own: their module holds an `app`.
_GROUPS = frozenset({"profiles", "rank", "trace"})
for _order, (_command, _help) in enumerate(_COMMANDS.items()):
    _module = _command.replace("-", "_")
    _entry = "app" if _command in _GROUPS else _module
    _ending = {} if _command in _GROUPS else {"help_epilogue": epilogue(_command)}  # a group has its own
    app.command(f"paceline.cli.{_module}:{_entry}", name=_command, help=_help, sort_key=_order, **_ending)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command, with errors that the caller can put right as one line."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if sys.stdout is None:
        # Python has no stream for a descriptor that was closed before it started; an answer would be lost.
        complain("standard output must be open, was closed; redirect it to a file or to /dev/null")
        return USAGE
    try:
        status = app(words, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        complain(f"{_one_line(_misused(error))} (paceline {_help_words(words)}--help)")
        return USAGE
    except InternalError as error:
        complain(_one_line(_reported(error, words)))
        return FAILED
    except PacelineError as error:
        complain(_one_line(str(error)))
        return USAGE
    except BrokenPipeError:
        # The reader has seen enough.
        _discard_output()
        return FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or error}")
        _discard_output()
        return USAGE
    except MemoryError:
        complain("out of memory: the trace, the cluster or the profile is too large for this machine")
        return USAGE
    # Only a command that answers yes or no has a status of its own.
    return status if isinstance(status, int) else 0


def _misused(error: CycloptsError) -> str:
    """Say what of a command's words is missing or too much, or leave the message as it is."""
    if isinstance(error, MissingArgumentError) and error.argument is not None and not error.tokens_so_far:
        given = error.keyword is not None
        return f"{error.argument.name} must {'have a value' if given else 'be given'}"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"{error.unused_tokens[0]!r} must be left out: the command takes no further argument"
    return str(error)


def _discard_output() -> None:
    """Send what is still to be written nowhere: Python would complain again when it flushes at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reported(bug: InternalError, words: Sequence[str]) -> str:
    """Save the configuration for a bug report beside the requested output, and print where."""
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    out = bound.arguments.get("out")
    if out is None:
        return f"{bug}; the same command with --out DIR saves it" if bug.configuration else str(bug)
    try:
        bug.save(out.with_name(f"{out.name}.bug"))
    except OSError as error:
        return f"{bug}; it could not be saved beside {out}: {error.strerror or error}"
    return str(bug)


def _help_words(words: Sequence[str]) -> str:
    return f"{words[0]} " if words and words[0] in _COMMANDS else ""


def _one_line(message: str) -> str:
    return " ".join(message.split())
