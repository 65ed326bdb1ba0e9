"""Seats of instances that decode, by the recipes of InferenceX's disaggregated runs of TensorRT-LLM.

Its configurations (SemiAnalysisAI/InferenceX 0004cf5, ``.github/configs/nvidia-master.yaml``) name a recipe
of ishandhanani/srt-slurm for each load, such as ``ctx1_gen3_tep8_batch16_eplb0_mtp0_63.yaml``: instances that
prefill, those that decode, how these are split, and their largest batch, a rank's where attention has ranks.
With more requests in flight than all seats, requests wait for one with their KV, and their first token. Runs
of 2025 on GB200 have it as ``DECODE_MAX_BATCH_SIZE`` in the configuration of that time (00e77d0 of the fork
dukebw/InferenceMAX).
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.validation.points.point import Split
from paceline.validation.points.readers.scripts import Flags, Run

__all__ = ["of_recipe", "seats_of"]

_Load = tuple[str, str, int, int]
#: By GPU, weights and lengths, and by instances that prefill and that decode: requests in flight by batch.
#: Only runs without drafts. Ten requests on B300 are from the recipe of the same name with drafts.
_BATCHES: Mapping[_Load, Mapping[tuple[int, int], Mapping[int, tuple[int, ...]]]] = {
    ("b200", "nvfp4", 1024, 1024): {
        (1, 1): {512: (4096,)},
        (1, 2): {128: (2192,)},
        (1, 5): {32: (10, 15, 25, 45, 90, 180, 1365), 1: (6,)},
        (1, 6): {64: (450,)},
    },
    # ctx1_gen5_tep8_batch8 is not here: with 100 requests in flight 15 run on an instance, by Little's law.
    ("b200", "nvfp4", 8192, 1024): {
        (2, 5): {64: (370,)},
        (4, 1): {192: (1606,)},
        (4, 3): {32: (837,)},
        (7, 2): {128: (2222,)},
    },
    ("b200", "fp8", 1024, 1024): {
        (1, 1): {512: (4096,)},
        (1, 5): {48: (1920,)},
        (2, 5): {128: (5152,)},
    },
    ("b200", "fp8", 8192, 1024): {
        (1, 1): {128: (128,), 256: (256,)},
        (1, 2): {64: (128,)},
        (1, 4): {32: (32, 128)},
        (1, 6): {16: (96,)},
        (2, 1): {640: (640,)},
    },
    ("b300", "nvfp4", 1024, 1024): {
        (1, 2): {64: (1176,)},
        (1, 4): {1: (6,)},
        (1, 5): {4: (5, 10, 15, 25), 64: (60, 110, 195, 395)},
        (2, 1): {512: (4405,)},
        (3, 1): {1024: (8192,)},
        (3, 2): {256: (4611,)},
    },
    ("b300", "nvfp4", 8192, 1024): {
        (1, 3): {32: (105,), 16: (63,), 1: (4,)},
        (1, 4): {2: (12,)},
        (5, 2): {32: (589,)},
        (6, 1): {128: (1093,)},
        (8, 1): {256: (2048,)},
    },
    ("b300", "fp8", 1024, 1024): {
        (1, 1): {256: (2112,)},
        (1, 2): {128: (3072,)},
        (1, 3): {48: (1280,)},
        (1, 8): {64: (12, 128, 384), 1: (10,)},
        (2, 1): {1024: (16384,)},
    },
    ("b300", "fp8", 8192, 1024): {
        (1, 4): {16: (64,)},
        (1, 8): {2: (16,)},
        (2, 1): {32: (256,)},
        (3, 1): {64: (512,)},
        (3, 5): {64: (256,)},
        (5, 1): {128: (1075,)},
        (7, 1): {384: (3072,)},
    },
    ("gb200", "nvfp4", 1024, 1024): {
        (1, 1): {512: (4300, 4301)},
        (1, 2): {768: (6144,)},
        (1, 4): {32: (12, 24, 48, 96, 192), 1: (5,), 128: (1, 2, 4, 8, 16, 32, 64, 141)},
    },
    ("gb200", "nvfp4", 1024, 8192): {(1, 7): {1: (5,)}, (1, 15): {4: (60,), 8: (135,)}},
    ("gb200", "nvfp4", 8192, 1024): {
        (1, 3): {32: (1, 2, 4, 8, 16, 34)},
        (1, 4): {16: (12, 44, 76), 1: (5,)},
        (5, 1): {256: (2150,)},
    },
    ("gb200", "fp8", 1024, 1024): {
        (1, 1): {768: (6144,), 512: (4301,)},
        (1, 3): {8: (27,), 1: (3,)},
    },
    ("gb200", "fp8", 1024, 8192): {(1, 4): {8: (36,), 1: (4,)}},
    ("gb200", "fp8", 8192, 1024): {(1, 3): {16: (63,), 4: (18,), 1: (6,)}},
    ("gb300", "nvfp4", 1024, 1024): {
        (1, 4): {32: (12, 48, 96, 192), 1: (5,)},
        (2, 1): {1024: (8192,)},
    },
    ("gb300", "nvfp4", 1024, 8192): {(1, 7): {1: (7,), 32: (245,)}, (1, 15): {4: (60,)}},
    ("gb300", "nvfp4", 8192, 1024): {
        (1, 3): {16: (72,)},
        (1, 4): {1: (5,), 2: (12,)},
        (1, 5): {4: (5, 15, 30)},
        (11, 3): {256: (3228,)},
    },
    ("gb300", "fp8", 1024, 1024): {
        (1, 4): {1: (4,), 4: (24,), 16: (84,)},
        (3, 2): {512: (8602,), 768: (12288,)},
    },
    ("gb300", "fp8", 1024, 8192): {(1, 4): {8: (36,), 1: (4,)}},
    ("gb300", "fp8", 8192, 1024): {(1, 4): {1: (4,), 4: (24,), 8: (36,)}, (7, 1): {256: (2151,)}},
}


def seats_of(run: Run, prefill: int, decode: int) -> int | None:
    """Return the largest batch of an instance that decodes, or of each of its ranks; None: not known.

    Examples
    --------
    >>> from paceline.model import Model
    >>> run = Run("trtllm", Model.load("deepseek-r1"), "gb200", 8, True, 8192, 1024, 63, scripted=False)
    >>> seats_of(run, 1, 3), seats_of(run._replace(concurrency=64), 1, 3)
    (16, None)
    """
    if run.engine != "trtllm" or not run.deepseek or run.scripted:
        return None
    load = (run.gpu, run.model.weight_dtype, run.prompt, run.output)
    batches = _BATCHES.get(load, {}).get((prefill, decode), {})
    return next((batch for batch, known in batches.items() if run.concurrency in known), None)


def of_recipe(flags: Flags, run: Run, instances: tuple[int, int], prefilling: Split) -> Flags:
    """Return the flags of instances that prefill and that decode, with what their recipe says.

    srt-slurm's for B200 in FP8 and GB200 in NVFP4 have ranks of attention where prompts are computed, and 16
    prompts of 1,024 tokens in a step of each (``max_num_tokens: 16384``), or of 8,192 tokens one in FP8 and
    two in NVFP4 (8320, 16640). Runs of 2025 without such ranks have other recipes.
    """
    flags = flags._replace(max_num_seqs=seats_of(run, *instances))
    tokens = {1024: 16384, 8192: 16640 if run.four_bits else 8320}.get(run.prompt)
    if run.engine != "trtllm" or not run.deepseek or prefilling.data_parallel == 1 or tokens is None:
        return flags
    return flags._replace(max_num_batched_tokens=tokens)
