# SPDX-License-Identifier: Apache-2.0
"""Arrays to a device and back, of any library, in pieces through pinned memory."""

from __future__ import annotations

from typing import Any

import numpy

from headrace import _array, _devices, _dtypes, _foreign
from headrace._ends import DeviceMemory
from headrace._pipeline import Pipeline


def _swaps(found: _foreign.Foreign) -> list[str]:
    """The kernel between an array's byte order and the machine's."""
    if found.swap > 8:
        raise ValueError(f"no kernel swaps the bytes of {found.dtype}: bring it to native order")
    return [f"bswap:{found.swap}"] if found.swap else []


def _kernels(found: _foreign.Foreign, to: _dtypes.DType) -> list[str]:
    cast = _dtypes.cast_kernel(found.dtype, to)
    return _swaps(found) + ([cast] if cast else [])


def _into(out: Any, shape: tuple[int, ...], order: str, dtype: Any) -> _foreign.Foreign:
    """What out is, if the elements fit it."""
    found = _foreign.describe(out, writable=True)
    wanted = found.dtype if dtype is None else _dtypes.native(dtype)
    same_order = found.order == order or sum(n > 1 for n in shape) < 2
    if found.shape != shape or found.dtype != wanted or not same_order:
        raise ValueError(
            f"out is {found.shape} of {found.dtype} in {found.order} order: to be written is "
            f"{shape} of {wanted} in {order} order"
        )
    return found


def _shaped(flat: _array.Array, shape: tuple[int, ...], order: str) -> _array.Array:
    if order == "F":
        return flat.reshape(shape[::-1]).T
    return flat.reshape(shape)


def to_device(array: Any, device: str = "auto", dtype: Any = None, out: Any = None) -> Any:
    """Copies an array to a device, at the speed of the link also from memory that is not pinned.

    Parameters
    ----------
    array : object
        Any library's array, on the host or a GPU: see ``headrace.Pipeline``.
    device : str, default "auto"
        "cuda:N", "hip:N", "host"; "auto": the first GPU, else the host. With `out` its device, and
        another one is an error.
    dtype : str, numpy.dtype or DType, optional
        Of the elements there: they are cast on the way, see the notes. By default they stay what
        they are, or become what `out` has.
    out : object, optional
        An array of any library to write to, of the same shape and order.

    Returns
    -------
    Array
        A new one of the same shape and order, which owns its memory; or `out` itself.

    Raises
    ------
    ValueError
        Elements that have no cast, `out` does not fit or is elsewhere, or an array with gaps on a
        GPU.
    HeadraceError
        As ``headrace.Pipeline``.

    Notes
    -----
    What the producer has queued on its stream comes before; when the call returns, the elements are
    there. Any thread; others run Python meanwhile.

    Casts round to the nearest value, ties to even; to integers they saturate and make NaN 0. That
    is not NumPy's ``astype``, which truncates towards zero and wraps around. To floats, what is too
    large becomes infinite.

    Examples
    --------
    >>> import headrace as hr, numpy as np
    >>> there = hr.to_device(np.arange(6.0).reshape(2, 3), "host", dtype="f4")
    >>> there
    <headrace.Array (2, 3) f32 on host: 0.0, 1.0, 2.0, 3.0, 4.0, 5.0>
    >>> numbers = np.array([0.5, 1.5, 2.7, -2.7, 300.0, np.nan])
    >>> hr.to_device(numbers, "host", dtype="int8").numpy().tolist()
    [0, 2, 3, -3, 127, 0]
    """
    found = _foreign.describe(array, writable=False)
    if out is not None:
        target = _into(out, found.shape, found.order, dtype)
        if device not in ("auto", target.device):
            raise ValueError(f"out is on {target.device}, device= names {device}")
        device, to = target.device, target.dtype
    else:
        device = _devices.resolve(device)
        to = found.dtype if dtype is None else _dtypes.native(dtype)
    if found.device not in ("host", device):  # there is no way from one GPU to another
        array = to_host(array)
        found = _foreign.describe(array, writable=False)
    kernels = _kernels(found, to)
    if out is not None:
        Pipeline(
            array, out, device=device, kernels=kernels + _swaps(target), decode="none"
        ).run()
        return out
    with Pipeline(
        array, DeviceMemory(), device=device, kernels=kernels, decode="none"
    ) as pipeline:
        pipeline.run()
        gathered = pipeline.gathered()
    return _shaped(gathered.view(to), found.shape, found.order)


def to_host(array: Any, out: Any = None, dtype: Any = None) -> Any:
    """Copies an array to the host, at the speed of the link also to memory that is not pinned.

    Parameters
    ----------
    array : object
        Any library's array, on a GPU or the host.
    out : object, optional
        A writable array of the host, of the same shape and order.
    dtype : str, numpy.dtype or DType, optional
        As for `to_device`.

    Returns
    -------
    numpy.ndarray
        A new one of the same shape and order; or `out` itself.

    Raises
    ------
    ValueError
        As `to_device`; or `out` is not on the host.
    HeadraceError
        As ``headrace.Pipeline``.

    Notes
    -----
    As `to_device`, also for casts, which round to nearest even and saturate.

    Examples
    --------
    >>> import headrace as hr, numpy as np
    >>> hr.to_host(hr.to_device(np.array([0.5, 2.7, -1.0]), "host"), dtype="uint8")
    array([0, 3, 0], dtype=uint8)
    """
    found = _foreign.describe(array, writable=False)
    order: Any = found.order
    if out is None:
        to = found.dtype if dtype is None else _dtypes.native(dtype)
        out, swaps = numpy.empty(found.shape, to.numpy, order), []
    else:
        target = _into(out, found.shape, order, dtype)
        to, swaps = target.dtype, _swaps(target)
        if target.device != "host":
            raise ValueError(f"out is on {target.device}: that is to_device's work")
    kernels = _kernels(found, to) + swaps
    device = "host" if found.device == "host" else found.device
    Pipeline(array, out, device=device, kernels=kernels, decode="none").run()
    return out
