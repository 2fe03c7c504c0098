# SPDX-License-Identifier: Apache-2.0
"""Cached files to a GPU: headrace beside what people use today, all in one process, in turn.

Three families: a raw file, a safetensors file, zstd files of many frames; the decoded bytes are the
same. Each peer is run beside headrace, round by round, and so is a plain copy of pinned memory,
which is the ceiling; ratios are medians of those of rounds (``bench/rounds.py``). What arrives is
compared once, on the GPU, with what a plain copy brought. The link by copies back to back and reads
by fio are told, too. What is not installed, or fails, is reported with the reason.
``bench/peers/site.sh`` gathers packages for a machine without a registry. Without a GPU what can
run does so on the host.
"""

import gc
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
import rounds  # noqa: E402
import tensors  # noqa: E402
import turns  # noqa: E402
from measure import cache  # noqa: E402
from report import Report, arguments  # noqa: E402
from work import Work, found, ready, reason, summary, timed, why_not  # noqa: E402

OURS = "headrace"
TRIAL_BYTES = 64 << 20
TRIAL_SECONDS = 60
FAMILIES = {
    "raw": (ours.Load, ours.LoadNew, *raw.PEERS),
    "safetensors": (ours.LoadTensors, raw.Pinned, *tensors.PEERS),
    **{form: (ours.Load, *encoded.PEERS) for form in forms.FRAMES},
}


def add_options(parser):
    """Add the options of this script."""
    parser.add_argument("--device", help="cuda:N, or host (cuda:0 where PyTorch sees it)")
    parser.add_argument("--seconds", type=float, default=45,
                        help="for all rounds; each pair has at least 5 (45)")
    parser.add_argument("--turns", type=int, metavar="DESCRIPTOR",
                        help="a socket by which two runs take turns (bench/turns.py)")
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
    timed(work, peer, verify=True)
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
    for (form, name), against in why.items():
        if against:
            not_run(form, name, against)
    return {form: [peer for peer in peers if not why[form, peer.name]]
            for form, peers in made.items()}


def duels_of(work, families, not_run):
    """Return pairs of headrace and each peer that does what it should."""
    duels = []
    for form, peers in families.items():
        good = ready(work, peers,
                     lambda name, against, form=form: not_run(form, name, against))
        if not good or good[0].name != OURS:
            raise SystemExit(f"{form}: headrace itself did not run")
        mine, *others = good
        if not others:
            not_run(form, OURS, "there is nothing to measure it beside")
        duels += [rounds.Duel(lambda mine=mine: timed(work, mine),
                              lambda peer=peer: timed(work, peer), (form, peer.name))
                  for peer in others]
    return duels


def family_of(duels, n_bytes):
    """Return the case of a family: each peer, and how many times headrace's time it took."""
    mine = [run for duel in duels for run in duel.runs[0]]
    cases = {OURS: {"command": OURS, **summary(mine, n_bytes)}}
    for duel in duels:
        name = duel.about[1]
        cases[name] = {"command": name, **summary(duel.runs[1], n_bytes), "ratio": duel.ratio(),
                       "rounds_s": duel.rounds}
    cases["ratios"] = {name: case["ratio"]["median"] for name, case in cases.items()
                       if "ratio" in case}
    return cases


def measure(given, work, report, by_turns):
    """Measure all families, each peer beside headrace, by turns with another run, if there is one."""
    def not_run(form, name, against):
        print(f"{form}: {name}: not run, {against}", flush=True)
        report.cases[f"{form}: {name}"] = {"not_run": against}

    families = chosen(given, work, not_run)
    duels = duels_of(work, families, not_run)
    gc.freeze()  # all that was imported: collections before runs would take long
    rounds.in_turn(duels, given.seconds, lambda duel, error: not_run(*duel.about, reason(error)),
                   by_turns.clock, by_turns.give)
    by_turns.end()
    for form in families:
        of_form = [duel for duel in duels if duel.about[0] == form]
        if of_form:
            report.add(form, family_of(of_form, work.n_bytes))
    for peers in families.values():
        for peer in peers:
            peer.close()


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


def judge(report):
    """Add the figures: how much of the link, and how many times our time."""
    for form in FAMILIES:
        for name, case in report.cases.get(form, {}).items():
            if "ratio" not in case:
                continue
            of_link = name == raw.CEILING
            report.figure(f"{form}: {OURS if of_link else name}", case["ratio"]["median"],
                          "of H2D" if of_link else "peer / headrace", spread=case["ratio"])


def main():
    """Measure, compare, write."""
    given = arguments(__doc__, add_options)
    ours.use_build(given.headrace)
    by_turns = turns.Turns(given.turns)
    report = Report()
    if not ours.is_there(report, "peers", given.report):
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
    add_ceilings(work, report)
    measure(given, work, report, by_turns)
    judge(report)
    report.write(given.report)


if __name__ == "__main__":
    main()
