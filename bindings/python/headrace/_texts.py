# SPDX-License-Identifier: Apache-2.0
"""The texts of the C library in the words of Python.

They name fields of C's structs and options of the command, for all who call it. A user of this
package has neither: here, and nowhere else, they become arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# In this order. Left: a pattern, within the text of one error.
_WORDS = (
    (r"\(decode, --decode none\)", '(decode="none")'),
    (r"\(HR_STRICT, --strict\)", "(strict=True)"),
    (r"\((\w+), --[a-z-]+\)", r"(\1=)"),
    (r" \(--[a-z-]+(?:, --[a-z-]+)*\)", ""),
    (r"next: the pipeline's sink is not of kind HR_PULL", "the pipeline has a sink: run() it"),
    (r"hr_pipeline_next: the sink is of kind HR_PULL", "iteration: the pipeline has no sink"),
    (r"for sinks of kind HR_PULL", "for iteration, without a sink"),
    (r"of kind HR_DEVICE without data", "of kind DeviceMemory()"),
    (r"of kind HR_DEVICE", "in a device's memory"),
    (r"\bHR_UNORDERED\b", "unordered=True"),
    (r"\bHR_LEND_DEVICE\b", "lend_device=True"),
    (r"\bHR_KERNEL_COUNTED\b", "counted=True"),
    (r"\bconnect_ms\b", "connect_timeout"),
    (r"\bidle_ms\b", "idle_timeout"),
    (r"\bn_threads\b", "threads"),
)


def in_python(text: str, verbatim: Iterable[str] = ()) -> str:
    """A text of the C library with this package's names.

    Parameters
    ----------
    text : str
        Of an hr_error.
    verbatim : iterable of str, default ()
        What stays as it is wherever it stands: the user's paths.

    Returns
    -------
    str

    Examples
    --------
    >>> in_python("release one first, or set more (depth, --depth)")
    'release one first, or set more (depth=)'
    """
    kept = [re.escape(one) for one in sorted(verbatim, key=len, reverse=True) if one]
    parts = re.split(f"({'|'.join(kept)})", text) if kept else [text]
    parts[::2] = map(_translated, parts[::2])
    return "".join(parts)


def _translated(text: str) -> str:
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text
