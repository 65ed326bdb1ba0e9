"""An encoder with a scalar head: a prompt's tokens to one number.

The head is one linear layer without normalization, as in PARS. The encoder's output is pooled as the encoder
was made for: BERT's pooler (the paper's choice), the mean over tokens (T5's encoder, and sentence encoders
that say so), or the last token (OPT).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from paceline.errors import RankError
from paceline.rank.neural.libraries import torch_module, transformers_module
from paceline.rank.tensors import read_tensors, write_tensors

__all__ = ["Encoder", "Pooling", "Precision"]

Pooling: TypeAlias = Literal["auto", "pooler", "mean", "last"]
Precision: TypeAlias = Literal["auto", "float32", "bfloat16"]

_ENCODER: Final = "encoder"
_HEAD: Final = "head.safetensors"

# Prompts of like length are encoded together, this many at once.
_TRAINED_AT_ONCE: Final = 16
_SCORED_AT_ONCE: Final = 64

_T5: Final = ("t5", "mt5", "umt5")


class Encoder:
    """A tokenizer, an encoder and a head.

    Parameters
    ----------
    name
        A local folder, or a name of the Hugging Face hub.
    pooling
        ``"auto"``: see the module.
    max_tokens
        Tokens of a prompt that count, from its start.
    download
        Whether files that are not on this machine are fetched.
    precision
        Of the matrix products in training; ``"auto"`` is bfloat16 if the processor multiplies it. Weights are
        kept, and prompts scored, in float32.
    """

    def __init__(
        self, name: str, *, pooling: Pooling, max_tokens: int, download: bool, precision: Precision = "auto"
    ) -> None:
        transformers, torch = transformers_module(), torch_module()
        # An encoder is weights and a known architecture: code that comes with a model is not run.
        local = {"local_files_only": not download, "trust_remote_code": False}
        try:
            config = transformers.AutoConfig.from_pretrained(name, **local)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(name, **local)
            kind = transformers.T5EncoderModel if config.model_type in _T5 else transformers.AutoModel
            self.body = kind.from_pretrained(name, use_safetensors=True, **local)
        except (OSError, ValueError, KeyError) as error:
            hint = "" if download else "; it must be a local folder, or on this machine, unless download=True"
            raise RankError(
                f"encoder {name!r} cannot be loaded{hint}: {str(error).splitlines()[0]}"
            ) from error
        self.pooling = _pooling(name, config.model_type) if pooling == "auto" else pooling
        if self.pooling == "pooler" and getattr(self.body, "pooler", None) is None:
            raise RankError(f'encoder {name!r} has no pooler; use pooling="mean" or pooling="last"')
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.max_tokens = max_tokens
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.precision = _precision(self.device.type) if precision == "auto" else precision
        self.head = torch.nn.Linear(config.hidden_size, 1)
        torch.nn.init.normal_(self.head.weight, std=0.02)
        torch.nn.init.zeros_(self.head.bias)
        self.body.to(self.device)
        self.head.to(self.device)

    def parameters(self) -> list[Any]:
        """Return the tensors that training changes."""
        return [*self.body.parameters(), *self.head.parameters()]

    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each prompt's tokens."""
        ids: list[list[int]] = self.tokenizer(
            list(prompts), truncation=True, max_length=self.max_tokens, add_special_tokens=True
        )["input_ids"]
        return ids

    def train(self, tokens: Sequence[Sequence[int]]) -> Any:  # noqa: ANN401 - a tensor
        """Return the scores of a batch as a tensor to differentiate."""
        torch = torch_module()
        self.body.train()
        reduced = self.precision == "bfloat16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=reduced):
            return self._scores(tokens, _TRAINED_AT_ONCE).float()

    def score(self, tokens: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        """Return the scores of prompts."""
        self.body.eval()
        with torch_module().inference_mode():
            made = self._scores(tokens, _SCORED_AT_ONCE)
        return np.asarray(made.float().cpu().numpy(), dtype=np.float64)

    def state(self) -> dict[str, Any]:
        """Return a copy of all weights."""
        both = {"body": self.body, "head": self.head}
        return {
            name: {key: value.detach().clone() for key, value in part.state_dict().items()}
            for name, part in both.items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Set all weights."""
        self.body.load_state_dict(state["body"])
        self.head.load_state_dict(state["head"])

    def save(self, folder: Path) -> None:
        """Write the encoder, its tokenizer and the head, as safetensors and JSON."""
        self.body.save_pretrained(folder / _ENCODER)
        self.tokenizer.save_pretrained(folder / _ENCODER)
        head = {name: value.detach().float().cpu().numpy() for name, value in self.head.state_dict().items()}
        write_tensors(folder / _HEAD, head)

    @classmethod
    def load(cls, folder: Path, *, pooling: Pooling, max_tokens: int) -> Self:
        """Read what `save` wrote."""
        made = cls(str(folder / _ENCODER), pooling=pooling, max_tokens=max_tokens, download=False)
        torch = torch_module()
        head = {
            name: torch.from_numpy(np.array(value)) for name, value in read_tensors(folder / _HEAD).items()
        }
        try:
            made.head.load_state_dict(head)
        except RuntimeError as error:
            raise RankError(f"{folder / _HEAD}: is not the head of the encoder beside it: {error}") from error
        return made

    def _scores(self, tokens: Sequence[Sequence[int]], at_once: int) -> Any:  # noqa: ANN401
        torch = torch_module()
        order = sorted(range(len(tokens)), key=lambda position: len(tokens[position]))
        parts = [
            self._encoded([tokens[position] for position in order[start : start + at_once]])
            for start in range(0, len(order), at_once)
        ]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back.to(self.device)]

    def _encoded(self, tokens: Sequence[Sequence[int]]) -> Any:  # noqa: ANN401
        torch = torch_module()
        longest = max(map(len, tokens))
        ids = torch.full((len(tokens), longest), self.tokenizer.pad_token_id or 0, dtype=torch.long)
        mask = torch.zeros((len(tokens), longest), dtype=torch.long)
        for row, each in enumerate(tokens):
            ids[row, : len(each)] = torch.tensor(each)
            mask[row, : len(each)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        output = self.body(input_ids=ids, attention_mask=mask)
        if self.pooling == "pooler":
            pooled = output.pooler_output
        elif self.pooling == "mean":
            weight = mask.unsqueeze(-1).to(output.last_hidden_state.dtype)
            pooled = (output.last_hidden_state * weight).sum(dim=1) / weight.sum(dim=1)
        else:
            pooled = output.last_hidden_state[torch.arange(len(tokens)), mask.sum(dim=1) - 1]
        return self.head(pooled)[:, 0]


def _precision(device: str) -> Precision:
    torch = torch_module()
    if device == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return "bfloat16" if known.get("avx512_bf16") or known.get("amx_bf16") else "float32"


def _pooling(name: str, model_type: str) -> Pooling:
    if (Path(name) / "1_Pooling" / "config.json").is_file() or model_type in _T5:
        return "mean"
    return "pooler" if model_type == "bert" else "last" if model_type == "opt" else "mean"
