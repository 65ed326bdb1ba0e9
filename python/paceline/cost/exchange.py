"""Messages besides all-reduces: tokens to experts and back, activations between pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.model import Model

__all__ = ["Exchange", "exchanges_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One kind of message, over all layers or stages of a step.

    Parameters
    ----------
    times
        Messages of this kind in a step.
    sent_bytes
        Bytes that a rank sends for each token in one message.
    """

    times: int
    sent_bytes: float


def exchanges_of(model: Model, *, ranks: int, data_ranks: int, stages: int) -> list[Exchange]:
    """Return the messages that each of ``ranks`` tensor-parallel ranks sends besides its all-reduces.

    - *To the experts and back*, in every layer of a mixture if ``data_ranks`` ranks share the experts: vLLM's
      default (``allgather_reducescatter``, ``distributed/device_communicators/all2all.py``) gathers hidden
      states and router logits of all ranks on all of them, and scatters the sums of the experts' outputs. A
      rank sends its tokens to all others, and their sums back.
    - *Between stages*: hidden state and residual go to the next (``IntermediateTensors``), each rank sending
      its part (``distributed/parallel_state.py::send_tensor_dict``), and the ranks of the next stage gather
      the whole.

    Examples
    --------
    >>> from paceline.model import Model
    >>> exchanges_of(Model.load("llama-3.1-8b"), ranks=1, data_ranks=1, stages=2)
    [Exchange(times=1, sent_bytes=16384.0)]
    """
    hidden, number = model.hidden_size, model.kv_dtype_bytes(model.dtype)
    exchanges = []
    if model.experts is not None and data_ranks > 1:
        layers, others = model.layers - model.experts.dense_layers, data_ranks - 1
        exchanges += [
            Exchange(times=layers, sent_bytes=float(others * (hidden + model.experts.count) * number)),
            Exchange(times=layers, sent_bytes=float(others * hidden * number)),
        ]
    if stages > 1:
        message = 2 * hidden * number
        exchanges.append(Exchange(times=stages - 1, sent_bytes=message / ranks))
        if ranks > 1:
            exchanges.append(Exchange(times=stages - 1, sent_bytes=(ranks - 1) / ranks * message))
    return exchanges
