"""The neural family: an encoder with a scalar head, in PyTorch and transformers."""
