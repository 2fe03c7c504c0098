# SPDX-License-Identifier: Apache-2.0
"""A double of PyTorch for tests without it: what ``Stream.torch`` uses, on NumPy arrays."""

from numpy import from_dlpack

__all__ = ["from_dlpack"]
