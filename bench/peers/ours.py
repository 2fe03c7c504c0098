# SPDX-License-Identifier: Apache-2.0
"""headrace, by its Python package, in the same process as the peers."""

import os
import sys

from work import BENCH, Peer, found, why_not


def use_build(headrace):
    """Have ``import headrace`` take the package of this tree and the command's libraries."""
    build = os.path.dirname(os.path.dirname(headrace))
    if os.path.exists(os.path.join(build, "libheadrace.so.0")):
        os.environ.setdefault("HEADRACE_LIBRARY_DIR", build)
        sys.path.insert(0, os.path.join(BENCH, "..", "bindings", "python"))


class Load(Peer):
    """``headrace.load`` of bytes, also encoded ones, into memory that is there."""

    name = "headrace"
    needs = ("numpy", "cffi", "headrace")

    def run(self):
        """See `Peer`."""
        found("headrace").load(self.path, dtype="u1", format="raw", out=self.work.out)
        return [self.work.out]


class LoadNew(Load):
    """The same, into memory that it takes anew, as most peers do."""

    name = "headrace, new memory"

    def run(self):
        """See `Peer`."""
        return [found("headrace").load(self.path, dtype="u1", format="raw",
                                       device=self.work.device)]


class LoadTensors(Peer):
    """``headrace.load`` of a safetensors file."""

    name = "headrace"
    needs = ("numpy", "cffi", "headrace")

    def run(self):
        """See `Peer`."""
        made = found("headrace").load(self.path, device=self.work.device)
        return [made[name] for name in sorted(made)]


def is_there(report, case, path):
    """Tell whether the package comes; else write a report, with the case as not run."""
    why = why_not(*Load.needs)
    if why:
        print(f"not run: {why}")
        report.cases[case] = {"not_run": why}
        report.write(path)
    return not why
