# SPDX-License-Identifier: Apache-2.0
"""The devices of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from headrace import _calls
from headrace._library import ffi


@dataclass(frozen=True)
class Device:
    """A device, or a backend without one.

    Attributes
    ----------
    name : str
        "host", "cuda:0", "hip:0": what the argument device of a pipeline takes.
    present : bool
        False: why tells the reason.
    title : str
        As its maker calls it.
    version : str
        Of driver and runtime.
    memory_bytes : int
        Bytes of its memory.
    why : str
        Library not found, no device, devices hidden, ...
    uuid, pci : str
        Either may stand in the place of the number in a name; "" if it is not told.
    """

    name: str
    present: bool
    title: str
    version: str
    memory_bytes: int
    why: str
    uuid: str
    pci: str


def _text(field: Any) -> str:
    return str(ffi.string(field).decode("utf-8", "replace"))


def devices() -> list[Device]:
    """Lists the devices of this machine; a backend without one stands in the list with its reason.

    Returns
    -------
    list of Device
        The host is one of them.

    Notes
    -----
    Starts no driver context. Any thread.

    Examples
    --------
    >>> import headrace as hr
    >>> [device.name for device in hr.devices() if device.name == "host"]
    ['host']
    """
    return [
        Device(
            name=_text(found.name),
            present=bool(found.present),
            title=_text(found.title),
            version=_text(found.version),
            memory_bytes=found.memory_bytes,
            why=_text(found.why),
            uuid=_text(found.uuid),
            pci=_text(found.pci),
        )
        for found in _calls.devices()
    ]


def resolve(device: Optional[str]) -> str:
    """The device that None and "auto" stand for: the first GPU, else the host."""
    if device not in (None, "auto"):
        return str(device)
    gpus = (found.name for found in devices() if found.present and found.name != "host")
    return next(gpus, "host")
