# SPDX-License-Identifier: Apache-2.0
"""What of the bench can be wrong without being slow: timelines, agreement, files, reports."""

import compileall
import copy
import os
import random
import statistics
import sys
import threading
import time

import pytest
from conftest import ROOT

import headrace as hr

BENCH = str(ROOT / "bench")


@pytest.fixture(autouse=True)
def bench_is_found(monkeypatch):
    """Its modules import each other by these folders."""
    for folder in (BENCH, os.path.join(BENCH, "peers")):
        monkeypatch.syspath_prepend(folder)


def test_all_compiles(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    assert compileall.compile_dir(BENCH, quiet=1)


@pytest.mark.parametrize("options", [{}, {"kernels": ["scale:f32,2,1"], "encode": "zstd"}])
def test_timeline_of_a_run_is_one(tmp_path, options):
    from plots import trace

    path = tmp_path / "run.trace.json"
    hr.Pipeline(bytes(1 << 20), str(tmp_path / "out"), chunk_size=1 << 16, depth=4,
                trace=str(path), **options).run()
    told = trace.read(path)
    assert trace.faults(told) == []
    stages = trace.by_stage(told)
    assert "write" in stages and ("encode" in stages) == ("encode" in options)
    spans = sorted(span for lane in stages["write"] for span in lane)
    assert sorted(chunk for _, _, chunk in spans) == list(range(len(spans)))
    few = min(4, len(spans) - 1)
    begin, end = trace.stride(told, few)
    assert begin > 0 or few == 0 and trace.stride(told, 1000) == (0, float("inf"))
    for lanes in trace.by_stage(told, (begin, end)).values():
        assert all(begin <= start and start + length <= end + 1e-6
                   for lane in lanes for start, length, _ in lane)


GOOD = {"displayTimeUnit": "ns", "traceEvents": [
    {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "headrace"}},
    {"ph": "M", "pid": 1, "tid": 64, "name": "thread_name", "args": {"name": "read 0"}},
    {"ph": "X", "pid": 1, "tid": 64, "name": "read", "ts": 1.5, "dur": 2, "args": {"chunk": 0}},
    {"ph": "X", "pid": 1, "tid": 64, "name": "read", "ts": 3.5, "dur": 0, "args": {"chunk": 1}},
]}


def test_a_good_timeline_has_no_fault():
    from plots import trace

    assert trace.faults(GOOD) == []


@pytest.mark.parametrize("at, change", [
    (0, {"name": "process"}), (0, {"args": {}}), (1, {"tid": 65}), (2, {"ph": "B"}),
    (2, {"dur": -1}), (2, {"dur": None}), (2, {"ts": "1"}), (2, {"name": None}),
    (2, {"pid": "1"}), (2, {"dur": 2.001}), (3, {"ts": 1}),
])
def test_each_fault_of_a_timeline_is_told(at, change):
    from plots import trace

    bad = copy.deepcopy(GOOD)
    bad["traceEvents"][at].update(change)
    assert len(trace.faults(bad)) == 1
    assert len(trace.faults({"events": []})) == 1


class NoisyMachine:
    """For seconds it is up to 3 times slower, and some runs are held up to take 5 times as long."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = self.period_ends = 0.0
        self.slower = 1.0

    def run(self, seconds):
        begun = self.now
        work = seconds * self.random.gauss(1, 0.02) * (5 if self.random.random() < 0.05 else 1)
        while work > 0:
            if self.now >= self.period_ends:
                self.period_ends = self.now + self.random.uniform(1, 6)
                self.slower = self.random.uniform(1, 3)
            part = min(work, (self.period_ends - self.now) / self.slower)
            work -= part
            self.now += part * self.slower + 1e-9
        return self.now - begun, 0.0


OURS = 0.02  # seconds
PEERS = [0.01, 0.014, 0.03, 0.06, 0.1, 0.13, 0.33, 0.9]


def pass_of_rounds(machine):
    import rounds

    duels = [rounds.Duel(lambda: machine.run(OURS), lambda peer=peer: machine.run(peer), str(peer))
             for peer in PEERS]
    begun = machine.now
    rounds.in_turn(duels, 45, pytest.fail, lambda: machine.now)
    assert 40 < machine.now - begun < 60
    assert all(len(duel.rounds) >= rounds.LEAST for duel in duels)
    return {"figures": [{"name": duel.about, "value": duel.ratio()["median"],
                         "unit": "peer / headrace", **duel.ratio()} for duel in duels]}


def pass_of_medians(machine):
    runs = {seconds: [] for seconds in (OURS, *PEERS)}
    for _ in range(5):
        for seconds, taken in runs.items():
            taken.append(machine.run(seconds)[0])
    median = {seconds: statistics.median(taken) for seconds, taken in runs.items()}
    return {"figures": [{"name": str(peer), "value": median[peer] / median[OURS],
                         "unit": "peer / headrace"} for peer in PEERS]}


def test_two_passes_on_a_noisy_machine_agree_on_each_ratio():
    import agreement

    n_far_by_medians = 0
    for seed in range(8):
        machine = NoisyMachine(seed)
        rows = agreement.compare(pass_of_rounds(machine), pass_of_rounds(machine))
        assert len(rows) == len(PEERS) and agreement.beyond(rows) == [], seed
        for row, peer in zip(rows, PEERS):
            assert row.first == pytest.approx(peer / OURS, rel=0.05)
            assert row.first_quartiles[0] <= row.first <= row.first_quartiles[1]
        n_far_by_medians += len(agreement.beyond(agreement.compare(pass_of_medians(machine),
                                                                   pass_of_medians(machine))))
    # ratios of medians do not agree there: that these do tells something
    assert n_far_by_medians > len(PEERS)


def test_time_that_is_left_goes_to_the_ratio_that_is_least_sure():
    import rounds

    machine = NoisyMachine(1)
    machine.slower, machine.period_ends = 1.0, float("inf")
    exact = rounds.Duel(lambda: machine.run(OURS), lambda: (OURS * 3, 0), "exact")
    rough = rounds.Duel(lambda: machine.run(OURS),
                        lambda: machine.run(OURS * machine.random.uniform(2, 4)), "rough")
    duels = [exact, rough]
    rounds.in_turn(duels, 30, pytest.fail, lambda: machine.now)
    assert len(rough.rounds) > 2 * len(exact.rounds)
    assert exact.error() < rough.error() < 0.03
    assert rough.error() > rounds.SURE and machine.now == pytest.approx(30, rel=0.05)


def test_it_ends_when_all_ratios_are_sure():
    import rounds

    ran = []
    duels = [rounds.Duel(lambda: (1, 0), lambda: ran.append(1) or (2, 0)) for _ in range(3)]
    rounds.in_turn(duels, 1e9, pytest.fail, lambda: len(ran))
    assert [len(duel.rounds) for duel in duels] == [rounds.MOST] * 3


@pytest.mark.parametrize("theirs, orders", [
    (1.5, ["ab", "ba", "ab"]), (3, ["ab", "aba", "aba"]), (9, ["ab", "aabaa", "aabaa"]),
    (0.3, ["ab", "bab", "bab"])])
def test_the_faster_side_of_a_round_runs_before_and_behind_the_slower_one(theirs, orders):
    import rounds

    order = []
    duel = rounds.Duel(lambda: order.append("a") or (1, 0),
                       lambda: order.append("b") or (theirs, 0))
    for wanted in orders:
        order.clear()
        duel.run()
        assert "".join(order) == wanted
    assert duel.ratio() == {"median": theirs, "quartiles": [theirs, theirs], "rounds": 3}
    assert rounds.summary([1, 2, 3, 4, 100]) == {"median": 3, "quartiles": [2, 4], "rounds": 5}


def test_two_runs_measure_by_turns(monkeypatch):
    import rounds
    import turns

    monkeypatch.setattr(turns, "SLICE_S", 0.002)
    busy, together, order = threading.Lock(), [], []

    def measured(name):
        def run():
            together.append(not busy.acquire(blocking=False))
            order.append(name)
            time.sleep(0.001)
            busy.release()
            return 0.001, 0
        return run

    def whole(name, side, told):
        by_turns = turns.Turns(side)
        duels = [rounds.Duel(measured(name), measured(name))]
        rounds.in_turn(duels, 0.2, pytest.fail, by_turns.clock, by_turns.give)
        told.append(len(duels[0].rounds))
        by_turns.end()

    first, second = turns.pair()
    told = []
    runs = [threading.Thread(target=whole, args=(name, side.detach(), told))
            for name, side in (("a", first), ("b", second))]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert not any(together) and order[0] == "a"
    assert sum(one != other for one, other in zip(order, order[1:])) > 4
    assert len(told) == 2 and min(told) >= rounds.LEAST


def test_who_is_alone_or_whose_partner_has_ended_goes_on():
    import turns

    alone = turns.Turns()
    alone.give()
    first, second = turns.pair()
    second.close()
    now = [0.0]
    left = turns.Turns(first.detach(), lambda: now[0])  # has the byte
    now[0] = 2 * turns.SLICE_S
    left.give()
    left.give()
    now[0] += 5
    assert left.clock() == now[0]
    third, fourth = turns.pair()
    third.close()
    assert turns.Turns(fourth.detach()).clock() > 0  # no byte comes


def test_passes_agree_or_it_is_told_which_ratios_do_not():
    import agreement

    def report(ratio, difference, efficiency, ceiling="read"):
        return {"figures": [
            {"name": "a", "value": ratio, "unit": "dd / headrace"},
            {"name": "rate", "value": ratio, "unit": "GB/s"},
            {"name": "gain: difference", "value": difference, "unit": "of the reported"},
        ], "pipelines": [{"name": "load", "efficiency": efficiency, "ceiling": ceiling,
                         "efficiency_by_part": {"read": 0.9, ceiling: efficiency},
                         "gain_told": ratio, "gain_told_compares": ceiling == "h2d",
                         "gigabytes_per_s": 1}]}

    close = agreement.compare(report(2.0, 0.01, 0.9), report(2.09, 0.09, 0.87))
    assert [row.name for row in close] == ["load: efficiency (of read)", "a (dd / headrace)"]
    assert agreement.beyond(close) == []
    assert "agree on all 2 ratios within 5 % (median spread 4.0 %, largest 4.5 %)" in (
        agreement.verdict(close))
    assert list(agreement.ratios(report(2.0, 0, 0.9, "h2d"))) == [
        "load: efficiency (of h2d)", "load: gain told", "a (dd / headrace)"]
    other = agreement.compare(report(2.0, 0, 0.89), report(2.0, 0, 0.8, "h2d"))
    assert [row[:3] for row in other] == [("load: efficiency (of read)", 0.89, 0.9),
                                          ("a (dd / headrace)", 2.0, 2.0)]
    assert agreement.only_once(report(2.0, 0, 0.9), report(2.0, 0, 0.8, "h2d")) == [
        "load: efficiency (of h2d)", "load: gain told"]
    apart = agreement.compare(report(2.0, 0, 0.0), report(2.2, 0, 0.9))
    assert [row.spread for row in agreement.beyond(apart)] == [None, pytest.approx(0.1)]
    assert "agree on 0 of 2" in agreement.verdict(apart)
    assert agreement.verdict([]) == "no ratio was measured twice"


def test_steps_that_fail_or_have_no_time_are_told():
    import report_all

    endless = float("inf")
    for command, until, status in (["true"], endless, ""), (["false"], endless, "exit status 1"), (
            ["false"], 0, "no time was left"):
        step = report_all.Step("step", command)
        report_all.run(step, until)
        assert step.status == status


def test_peers_that_fail_are_left_out_and_told():
    import rounds
    import work

    class Peer(work.Peer):
        def __init__(self, name, step):
            super().__init__(todo, "raw")
            self.name, self.run = name, step

    def broken():
        raise OSError("no such thing")

    import numpy
    todo = work.Work("host", {"raw": "nowhere"}, 4)
    todo.reference, todo.out = numpy.arange(4, dtype="u1"), numpy.zeros(4, "u1")
    told = {}
    good = work.ready(todo, [
        Peer("good", lambda: [todo.reference[:1], todo.reference[1:].copy()]),
        Peer("broken", broken), Peer("short", lambda: [todo.reference[:3]]),
        Peer("wrong", lambda: [todo.out])], told.__setitem__)
    assert [peer.name for peer in good] == ["good"]
    late = rounds.Duel(lambda: (1, 1), broken, "late")
    duels = [rounds.Duel(lambda: (1, 1), lambda: (2, 2)), late]
    rounds.in_turn(duels, 0, lambda duel, error: told.__setitem__(duel.about, work.reason(error)))
    assert late not in duels and len(duels[0].rounds) == rounds.LEAST
    assert told["late"] == "failed: OSError: no such thing"
    assert "no such thing" in told["broken"]
    assert "other bytes" in told["short"] and "other bytes" in told["wrong"]
    assert "not installed" in work.why_not("numpy", "no_such_module_anywhere")


def test_files_of_the_peers_are_what_loaders_take(tmp_path):
    import encoded
    import forms

    n = 2 * forms.UNIT
    data = bytes(range(256)) * (n // 256)
    (tmp_path / "a.safetensors").write_bytes(forms.header(n) + data)
    made = hr.load(tmp_path / "a.safetensors")
    assert b"".join(made[name].numpy().tobytes() for name in sorted(made)) == data
    hr.Pipeline(data, str(tmp_path / "a.zst"), encode="zstd", frame_size=1 << 16).run()
    frames = encoded.frames_of(tmp_path / "a.zst")
    assert [decoded for _, decoded in frames] == [1 << 16] * (n >> 16)
    begins, end = encoded.offsets_of([size for size, _ in frames])
    assert (tmp_path / "a.zst").read_bytes()[begins[-1]:].startswith(b"\x28\xb5\x2f\xfd")
    assert end < (tmp_path / "a.zst").stat().st_size
    assert encoded.offsets_of([1, 16, 17], 16) == ([0, 16, 32], 64)


def test_results_in_the_tree_make_a_report(tmp_path):
    import agreement
    import report_md
    from plots import data

    reports, timelines = data.read(str(ROOT / "bench" / "results" / "h200"))
    assert "gpu_transfers" in timelines
    busy = data.utilisation(reports["gpu_transfers"])["pinned memory to device"]
    assert 0.95 < busy["H2D"] <= 1.01 and "D2H" not in busy
    beside = {row[0]: row for row in data.beside_ceiling(reports["gpu_transfers"])}
    assert beside["device to pinned memory"][3] == "D2H"
    assert [row[0] for row in data.families(reports["python_gpu"])["load .npy"]] == [
        "headrace.load", "cupy.asarray(numpy.load)"]
    bench = {"machine": {"cpu": "one"},
             "ceilings": [{"name": "d2d", "what": "", "error": "no|GPU"}],
             "pipelines": [{"name": "load", "gigabytes_per_s": 4.0, "efficiency": 0.5,
                            "ceiling": "read", "ceiling_gigabytes_per_s": 8.0}]}
    check = {"case": "read", "figure": "gain", "wanted": 1.0, "got": 1.2, "relation": "within",
             "margin": 0.03, "judged": True, "good": False}
    truth = {"cases": {"truth": {"checks": [check, {**check, "judged": False}], "not_run": []}},
             "figures": []}
    rows = agreement.compare(bench, {"pipelines": [{**bench["pipelines"][0], "efficiency": 0.4}]})
    doubted = {**check, "judged": False, "good": True, "why": "it was busy"}
    truth["cases"]["truth"]["checks"].append(doubted)
    less = {"cases": {"truth": {"checks": [check],
                                "not_run": [{"case": "bound by H2D", "why": "there is no GPU"}]}},
            "figures": []}
    report_md.write(str(tmp_path), {**reports, "bench": bench, "truth": truth, "less": less},
                    report_md.About(rows, ["b"], [], "--size 1G"))
    text = (tmp_path / "REPORT.md").read_text()
    assert "| truth | [] |" not in text and text.count("| bound by H2D | there is no GPU |") == 1
    assert text.count("| read | gain | 1 | 1.2 | within 3% | **no** |") == 2
    assert text.count("| read | gain | 1 | 1.2 | not judged | it was busy |") == 1
    assert "| read | 1 | 0 | 1 |" in text  # figures judged, right, not judged
    assert "| load | 4 | read | 8 | 0.5 |" in text and "no\\|GPU" in text
    assert "**two passes agree on 0 of 1 ratios" in text
    assert "- measured in one pass only: b" in text
    assert "| load: efficiency (of read) | 0.5 |  | 0.4 |  | 25.0 % | **no** |" in text
    assert "OUTDIR --size 1G" in text
    assert [one["name"] for one in report_md.figures_of_bench(bench)] == ["load (read)"]
