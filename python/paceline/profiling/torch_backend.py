"""Kernels measured with PyTorch, on a CUDA device or the CPU.

On a CUDA device a kernel is captured into a graph of many calls, so that launches cost nothing, over as many
copies of its operands as the caches do not hold: in a model each layer's weights come from memory.
Element-wise layers are compiled into one kernel. On a CPU calls are timed one by one, which is for trying it
out.
"""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from paceline import _check
from paceline.errors import ConfigError
from paceline.profiling.attention import Kernels, PagedAttention, TorchAttention
from paceline.profiling.work import Attention, Elementwise, Experts, Lookup, Product, Work

__all__ = ["TorchBackend"]

#: Operands of this size together no cache holds: more than the 50 MB of an H100 and the 126 MB of a B200.
_PAST_CACHES = 512 * 2**20
_MOST_COPIES = 64
_CALLS = 20


class TorchBackend:
    """PyTorch on one device.

    Parameters
    ----------
    device
        As PyTorch calls it; None: the first CUDA device, else the CPU.
    attention
        Whose attention kernels are measured: ``"vllm"``, ``"torch"`` or ``"auto"``, which is vLLM's where
        they are installed and run on the device (:mod:`paceline.profiling.attention`).

    Raises
    ------
    ConfigError
        If PyTorch is not installed, or vLLM's kernels are asked for and do not run.
    """

    def __init__(self, device: str | None = None, *, attention: str = "auto") -> None:
        _check.one_of("attention of TorchBackend", attention, ("auto", "torch", "vllm"))
        try:
            torch: Any = import_module("torch")
        except ImportError as error:
            raise ConfigError(
                "profiling needs PyTorch, which is not installed: pip install 'paceline[profile]'"
            ) from error
        self._torch = torch
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._cuda = self.device.type == "cuda"
        self._compiled: dict[str, Callable[..., Any]] = {}
        self._attention: Kernels = self._kernels(attention)
        torch.manual_seed(0)

    def _kernels(self, attention: str) -> Kernels:
        if attention == "vllm" and not self._cuda:
            raise ConfigError(
                f"attention of TorchBackend is 'vllm', which needs CUDA; device is {self.device}"
            )
        if attention != "torch" and self._cuda:
            try:
                return PagedAttention(self._torch, self.device)
            except (ImportError, RuntimeError) as error:
                if attention == "vllm":
                    raise ConfigError(
                        f"attention of TorchBackend is 'vllm', whose kernels do not run here: {error}"
                    ) from error
        return TorchAttention(self._torch)

    @property
    def memory_bytes(self) -> int:
        """Half of what is free on the device; 2 GiB on a CPU."""
        if not self._cuda:
            return 2 * 2**30
        free, _ = self._torch.cuda.mem_get_info(self.device)
        return int(free // 2)

    def facts(self) -> dict[str, str]:
        """Return the device, its driver, and PyTorch's versions."""
        torch = self._torch
        facts = {
            "torch_version": str(torch.__version__),
            "python_version": platform.python_version(),
            "attention": self._attention.name,
        }
        if not self._cuda:
            return {**facts, "gpu": f"CPU ({platform.machine()})"}
        major, minor = torch.cuda.get_device_capability(self.device)
        return {
            **facts,
            "gpu": str(torch.cuda.get_device_name(self.device)),
            "cuda_version": str(torch.version.cuda),
            "capability": f"{major}.{minor}",
            "driver": _driver(),
        }

    def measure(self, work: Work, *, dtype: str, warmup: int, repeat: int) -> Sequence[float]:
        """Return the seconds of each repetition: see :class:`~paceline.profiling.backend.Backend`."""
        torch = self._torch
        number = getattr(torch, dtype)
        copies = 1
        if self._cuda:
            copies = max(1, min(_MOST_COPIES, _PAST_CACHES // max(2 * work.numbers, 1)))
            copies = min(copies, max(1, self.memory_bytes // max(2 * work.numbers, 1)))
        with torch.inference_mode():
            calls = [self._call(work, number) for _ in range(copies)]
            return self._on_gpu(calls, warmup, repeat) if self._cuda else _on_cpu(calls[0], warmup, repeat)

    def _on_gpu(self, calls: list[Callable[[], Any]], warmup: int, repeat: int) -> list[float]:
        torch = self._torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiles and allocates outside of the graph
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(side)
        rounds = max(1, _CALLS // len(calls))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(rounds):
                for call in calls:
                    call()
        for _ in range(warmup):
            graph.replay()
        times = []
        for _ in range(repeat):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(1e-3 * begin.elapsed_time(end) / (rounds * len(calls)))
        return times

    def _call(self, work: Work, number: Any) -> Callable[[], Any]:  # noqa: ANN401 - a torch.dtype
        torch = self._torch
        functional = torch.nn.functional

        def fresh(*shape: int) -> Any:  # noqa: ANN401 - a tensor
            return torch.randn(*shape, dtype=number, device=self.device)

        match work:
            case Product(rows, inputs, outputs):
                x, weights = fresh(rows, inputs), fresh(outputs, inputs)
                return lambda: functional.linear(x, weights)
            case Elementwise(kind, rows, width):
                return self._elementwise(kind, fresh(rows, 2 * width), width)
            case Lookup(rows, vocab, width):
                table = fresh(vocab, width)
                ids = torch.randint(vocab, (rows,), device=self.device)
                return lambda: functional.embedding(ids, table)
            case Attention():
                return self._attention.call(work, fresh)
            case Experts(tokens, activated, per_token, hidden, width):
                each = -(-tokens * per_token // activated)
                x = fresh(activated, each, hidden)
                up, down = fresh(activated, hidden, 2 * width), fresh(activated, width, hidden)

                def experts() -> Any:  # noqa: ANN401 - a tensor
                    gate, value = torch.bmm(x, up).chunk(2, dim=-1)
                    return torch.bmm(functional.silu(gate) * value, down)

                return experts
            case _:
                logits = fresh(work.requests, work.vocab)
                return lambda: logits.float().argmax(dim=-1)

    def _elementwise(self, kind: str, x: Any, width: int) -> Callable[[], Any]:  # noqa: ANN401 - a tensor
        kernel = self._kernel(kind)
        return lambda: kernel(x[:, :width], x[:, width:])

    def _kernel(self, kind: str) -> Callable[..., Any]:
        if kind not in self._compiled:
            plain = {"norm": self._norm, "rotary": self._rotary, "gate": self._gate}[kind]
            self._compiled[kind] = self._torch.compile(plain, dynamic=True) if self._cuda else plain
        return self._compiled[kind]

    def _norm(self, x: Any, residual: Any) -> Any:  # noqa: ANN401 - tensors
        total = x + residual
        return total, self._torch.nn.functional.rms_norm(total, (total.shape[-1],))

    def _rotary(self, x: Any, turn: Any) -> Any:  # noqa: ANN401 - tensors
        half = x.shape[-1] // 2
        first, second = x[:, :half], x[:, half : 2 * half]
        sine, cosine = turn[:, :half], turn[:, half : 2 * half]
        return first * cosine - second * sine, second * cosine + first * sine

    def _gate(self, x: Any, gate: Any) -> Any:  # noqa: ANN401 - tensors
        return self._torch.nn.functional.silu(gate) * x


def _on_cpu(call: Callable[[], Any], warmup: int, repeat: int) -> list[float]:
    for _ in range(warmup):
        call()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def _driver() -> str:
    """Return the version of NVIDIA's driver, as its tool says it."""
    words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.splitlines()[0].strip() if done.stdout.strip() else "unknown"
