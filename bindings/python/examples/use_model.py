# SPDX-License-Identifier: Apache-2.0
"""Load the tensors of a model and use them in PyTorch, without a copy; without PyTorch in NumPy.

    python use_model.py model.safetensors [host | cuda:0 | ...] [PATTERN]
"""

import sys

import headrace as hr

try:
    import torch
except ImportError:
    torch = None


def norms(tensors):  # name, and root of the sum of squares
    for name, tensor in tensors.items():
        if torch is not None:
            yield name, torch.linalg.vector_norm(torch.from_dlpack(tensor).double()).item()
            continue
        try:  # a cast of headrace's: NumPy alone has no bfloat16
            wide = hr.to_host(tensor, dtype="float64")
        except ValueError:  # there is none; of floats of 8 bits NumPy alone has only the bits
            only_bits = tensor.dtype.kind == "u" and tensor.dtype_name[0] == "f"
            wide = tensor.numpy().astype("float64") * (float("nan") if only_bits else 1)
        yield name, float((wide**2).sum() ** 0.5)


def main(path, device="host", pattern="*"):
    tensors = hr.load(path, keys=pattern, device=device)
    print("used in", "NumPy: PyTorch is not installed" if torch is None else "PyTorch")
    for name, norm in norms(tensors):
        tensor = tensors[name]
        print(f"{name:32} {tensor.dtype_name:6} {tensor.shape!s:20} {tensor.device:8} {norm:.6g}")


if __name__ == "__main__":
    main(*sys.argv[1:])
