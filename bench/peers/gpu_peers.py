# SPDX-License-Identifier: Apache-2.0
"""Cached files to a GPU: headrace beside what people use today, all in one process, in turn.

Three families: a raw file, a safetensors file, zstd files of many frames; the decoded bytes are the
same. What arrives is compared, on the GPU, with what a plain copy brought. Ceilings are measured
in the same run: the link by copies back to back, reads by fio. What is not installed, or fails, is
reported with the reason. ``bench/peers/site.sh`` gathers packages for a machine without a registry.
Without a GPU what can run does so on the host.
"""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import ceilings  # noqa: E402
import encoded  # noqa: E402
import forms  # noqa: E402
import ours  # noqa: E402
import raw  # noqa: E402
import tensors  # noqa: E402
from measure import cache  # noqa: E402
from report import Report, arguments  # noqa: E402
from work import Work, found, in_turn, summary, timed, why_not  # noqa: E402

OURS = "headrace"
TRIAL_BYTES = 64 << 20
TRIAL_SECONDS = 60
FAMILIES = {
    "raw": (ours.Load, ours.LoadNew, *raw.PEERS),
    "safetensors": (ours.LoadTensors, *tensors.PEERS),
    **{form: (ours.Load, *encoded.PEERS) for form in forms.FRAMES},
}


def add_options(parser):
    """Add the options of this script."""
    parser.add_argument("--device", help="cuda:N, or host (cuda:0 where PyTorch sees it)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument("--trial", metavar="FORM:NAME", help="only whether one peer runs at all")


def device_of(given, report):
    """Return the device, and tell in the report why it is not a GPU."""
    if given.device:
        return given.device
    why = why_not("torch")
    if not why and not found("torch").cuda.is_available():
        why = "PyTorch sees no GPU"
    if why:
        report.cases["GPU"] = {"not_run": why}
        print(f"on the host: {why}")
    return "host" if why else "cuda:0"


def work_of(device, n_bytes):
    """Return the work, its files in the page cache."""
    work = Work(device, forms.files(n_bytes), n_bytes)
    for path in work.paths.values():
        cache(path)
    work.place()
    return work


def trial(given, work):
    """Run one peer once: the process ends well, or not."""
    form, _, name = given.trial.partition(":")
    peer = next(kind for kind in FAMILIES[form] if kind.name == name)(work, form)
    peer.prepare()
    timed(work, peer)
    peer.close()


def reason_of(process):
    """Tell why a trial did not end well; empty if it did."""
    try:
        said = process.communicate(timeout=TRIAL_SECONDS)[1].strip().rpartition("\n")[2]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"a trial took over {TRIAL_SECONDS} s"
    if process.returncode < 0:
        return f"a trial ended by {signal.Signals(-process.returncode).name}: {said}"
    return f"a trial failed: {said}" if process.returncode else ""


def tried(given, device, peers):
    """Run foreign peers in processes of their own, all at once; a dict of reasons against some."""
    forms.files(TRIAL_BYTES)  # once, not by each
    command = [sys.executable, os.path.abspath(__file__), given.headrace, "--device", device,
               "--size", str(TRIAL_BYTES), "--trial"]
    running = {key: subprocess.Popen([*command, ":".join(key)], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True) for key in peers}
    return {key: reason_of(process) for key, process in running.items()}


def chosen(given, work, not_run):
    """Return the peers of each family that can run; the others go to not_run."""
    made = {form: [kind(work, form) for kind in kinds] for form, kinds in FAMILIES.items()}
    why = {(form, peer.name): peer.why_not() for form, peers in made.items() for peer in peers}
    why.update(tried(given, work.device, [
        (form, peer.name) for form, peers in made.items() for peer in peers
        if peer.foreign and not why[form, peer.name]]))
    for (form, name), reason in why.items():
        if reason:
            not_run(form, name, reason)
    return {form: [peer for peer in peers if not why[form, peer.name]]
            for form, peers in made.items()}


def measure(given, work, report):
    """Measure the families one after the other."""
    def not_run(form, name, reason):
        print(f"{form}: {name}: not run, {reason}", flush=True)
        report.cases[f"{form}: {name}"] = {"not_run": reason}

    for form, peers in chosen(given, work, not_run).items():
        cache(work.paths[form])
        runs = in_turn(work, peers, given.rounds,
                       lambda name, reason, form=form: not_run(form, name, reason))
        if OURS not in runs:
            raise SystemExit(f"{form}: headrace itself did not run")
        cases = {name: summary(pairs, work.n_bytes) for name, pairs in runs.items()}
        first = cases[OURS]["wall_s"]["median"]
        cases["ratios"] = {name: case["wall_s"]["median"] / first
                           for name, case in cases.items() if name != OURS}
        report.add(form, {name: {"command": name, **case} if name != "ratios" else case
                          for name, case in cases.items()})


def add_ceilings(work, report):
    """Measure the ceilings, and keep them."""
    link = ceilings.of_link(work.device) if work.on_gpu else {}
    reads, why = ceilings.of_reads(work.paths["raw"])
    if why:
        report.cases["ceiling: reads by fio"] = {"not_run": why}
        print(f"ceiling of reads: {why}")
    for way, rate in link.items():
        report.figure(f"ceiling: {way}", rate, "GB/s")
    for way, rate in reads.items():
        report.figure(f"ceiling: cached reads by fio, {way}", rate, "GB/s")
    return link.get("H2D")


def judge(report, link):
    """Add the figures: how much of the link, and how many times our time."""
    for form in FAMILIES:
        cases = report.cases[form]
        if link and not form.startswith("zstd"):
            report.figure(f"{form}: {OURS}", cases[OURS]["gigabytes_per_s"] / link, "of H2D")
        for name, ratio in cases["ratios"].items():
            report.figure(f"{form}: {name}", ratio, "peer / headrace")


def main():
    """Measure, compare, write."""
    given = arguments(__doc__, add_options)
    ours.use_build(given.headrace)
    report = Report()
    why = ours.why_no_headrace()
    if why:
        print(f"not run: {why}")
        report.cases["peers"] = {"not_run": why}
        report.write(given.report)
        return
    work = work_of(device_of(given, report), given.size // forms.UNIT * forms.UNIT)
    if given.trial:
        trial(given, work)
        os._exit(0)  # whatever the code of others does at the end
    if work.on_gpu:
        report.machine["gpu"] = found("torch").cuda.get_device_name(work.device)
    for name in ("torch", "cupy", "kvikio", "safetensors", "fastsafetensors", "nvidia.nvcomp",
                 "zstandard"):
        if not why_not(name):
            report.machine[name] = getattr(found(name), "__version__", "")
    link = add_ceilings(work, report)
    measure(given, work, report)
    judge(report, link)
    report.write(given.report)


if __name__ == "__main__":
    main()
