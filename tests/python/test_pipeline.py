# SPDX-License-Identifier: Apache-2.0
"""Pipelines: running, iterating, ending early, threads, forks, signals, leaving the process."""

import asyncio
import dataclasses
import gc
import json
import os
import random
import signal
import threading
import time
import zlib
from io import BytesIO

import numpy as np
import pytest

hr = pytest.importorskip("headrace")
from headrace import _calls, _drive, errors  # noqa: E402

DATA = np.random.default_rng(3).integers(0, 256, 3_000_001, dtype=np.uint8).tobytes()
SECONDS = 30  # that a process is waited for


@pytest.fixture
def silent():
    """The reading end of a pipe that says nothing."""
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


# ---- running and iterating ----


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, len(DATA)])
def test_null_sinks_tell_the_crc(io, size):
    stats = hr.Pipeline(DATA[:size], hr.NULL, io=io).run()
    assert stats.crc32 == zlib.crc32(DATA[:size])
    assert stats.io == io or io == "auto"


@pytest.mark.parametrize("chunk_size", [4096, 65536, 0])
def test_iteration_gives_the_stream(io, chunk_size):
    with hr.Pipeline(DATA, chunk_size=chunk_size, io=io) as pipeline:
        assert pipeline.state == "running"
        parts = [(c.index, c.stream_offset, c.first, c.numpy().tobytes()) for c in pipeline]
        assert pipeline.state == "done"
    assert pipeline.state == "closed"
    assert b"".join(part for *_, part in parts) == DATA
    assert [index for index, *_ in parts] == list(range(len(parts)))
    assert [first for *_, first, _ in parts] == [True] + [False] * (len(parts) - 1)
    assert next(iter(pipeline.stats().stages.values())).chunks == len(parts)


def test_iteration_of_nothing():
    pipeline = hr.Pipeline(b"")
    assert list(pipeline) == []
    assert list(pipeline) == []


def test_running_and_iterating_are_not_mixed():
    with pytest.raises(ValueError, match="iterate"):
        hr.Pipeline(b"").run()
    with pytest.raises(ValueError):
        next(hr.Pipeline(b"", hr.NULL))


def test_it_runs_once():
    out = BytesIO()
    pipeline = hr.Pipeline(DATA, out)
    stats = pipeline.run()
    for again in (pipeline.run, lambda: asyncio.run(pipeline.run_async())):
        with pytest.raises(ValueError, match="runs once: make another"):
            again()
    assert stats.bytes_out == pipeline.stats().bytes_out == len(DATA)
    assert out.getvalue() == DATA


def test_a_list_of_chunks_gives_the_designed_error(io):
    pipeline = hr.Pipeline(DATA, chunk_size=4096, depth=4, io=io)
    chunks = []
    with pytest.raises(BufferError, match="release one first"):
        for chunk in pipeline:
            chunks.append(chunk)
    assert 1 <= len(chunks) <= 4
    got = [c.numpy().tobytes() for c in chunks]
    chunk = None
    chunks.clear()  # and it goes on
    assert b"".join(got + [c.numpy().tobytes() for c in pipeline]) == DATA


def test_chunks_outlive_their_pipeline_and_its_source(io):
    source = bytearray(DATA)
    with hr.Pipeline(source, chunk_size=1 << 20, io=io) as pipeline:
        chunk = next(pipeline)
    del pipeline, source
    gc.collect()
    again = hr.Pipeline(b"x", hr.NULL)
    again.run()
    assert chunk.numpy().tobytes() == DATA[: 1 << 20]
    chunk.release()


@pytest.mark.parametrize("seed", range(6))
def test_objects_are_dropped_in_any_order(io, seed, resources):
    things = []
    for _ in range(3):
        context = hr.Context(threads=1)
        pipeline = hr.Pipeline(DATA, chunk_size=65536, context=context, io=io)
        things += [context, pipeline, next(pipeline), next(pipeline)]
    del context, pipeline
    random.Random(seed).shuffle(things)
    while things:
        things.pop()
        gc.collect()
    hr.Pipeline(b"", hr.NULL).run()


def test_closing_twice_and_using_what_is_closed():
    pipeline = hr.Pipeline(DATA, hr.NULL)
    pipeline.close()
    pipeline.close()
    pipeline.cancel()
    with pytest.raises(ValueError, match="closed"):
        pipeline.run()
    assert "closed" in repr(pipeline)


def test_closing_in_the_middle_touches_nothing_any_more(io, tmp_path):
    (tmp_path / "in").write_bytes(DATA * 20)
    pipeline = hr.Pipeline(tmp_path / "in", chunk_size=65536, io=io)
    next(pipeline).release()
    pipeline.close()
    assert pipeline.stats().stages["read"].chunks >= 1


def test_leaving_a_with_statement_by_an_exception(io, silent):
    with pytest.raises(KeyError), hr.Pipeline(silent, chunk_size=4096, io=io):
        raise KeyError


# ---- options ----


@pytest.mark.parametrize(
    "wrong",
    [
        {"decode": "gzip"},
        {"encode": "auto"},
        {"encode": "lz4"},
        {"direct": True},
        {"io": "aio"},
        {"connect_timeout": 0},
        {"idle_timeout": -1.0},
        {"window_log": 99},
        {"depth": 1 << 30},
    ],
)
def test_options_that_cannot_be_right(wrong):
    with pytest.raises((ValueError, hr.HeadraceError)):
        hr.Pipeline(b"x", hr.NULL, **wrong)


def test_an_option_that_is_not_known():
    with pytest.raises(TypeError):
        hr.Pipeline(b"x", hr.NULL, unknown=1)


def test_a_dictionary_serves_both_ways(tmp_path):
    dictionary = DATA[:2000]
    packed = BytesIO()
    hr.Pipeline(DATA[:2000] * 2, packed, encode="zstd", dict=dictionary).run()
    out = BytesIO()
    hr.Pipeline(packed.getvalue(), out, decode="zstd", dict=dictionary).run()
    assert out.getvalue() == DATA[:2000] * 2
    assert len(packed.getvalue()) < 500


def test_a_trace_is_a_timeline(tmp_path):
    hr.Pipeline(DATA, hr.NULL, trace=tmp_path / "trace.json").run()
    assert json.loads((tmp_path / "trace.json").read_text())


def test_memory_of_a_context_has_a_limit():
    context = hr.Context(max_memory=1 << 20)
    options = {"chunk_size": 1 << 18, "decode": "none", "context": context}
    held = []
    with pytest.raises((BlockingIOError, MemoryError)):
        for _ in range(100):
            held.append(hr.Pipeline(BytesIO(DATA), **options))
            next(held[-1])
    held.clear()
    hr.Pipeline(BytesIO(DATA), hr.NULL, **options).run()


def test_a_context_tells_what_it_falls_back_to():
    lines = []
    context = hr.Context(log=lines.append)
    hr.Pipeline(b"x", hr.NULL, kernels="crc32", device="auto", context=context).run()
    if not any(found.present for found in hr.devices() if found.name != "host"):
        assert any("host" in line for line in lines), lines


@pytest.mark.parametrize("size", [1, 4096, len(DATA)])
def test_memory_of_a_device_gathers_the_stream(io, size):
    pipeline = hr.Pipeline(BytesIO(DATA[:size]), hr.DeviceMemory(), device="host", io=io)
    with pytest.raises(ValueError, match="not done"):
        pipeline.gathered()
    pipeline.run()
    gathered = pipeline.gathered()
    pipeline.close()
    assert gathered.nbytes == size
    assert gathered.numpy().tobytes() == DATA[:size]


def test_memory_of_a_device_has_a_limit():
    with pytest.raises(hr.HeadraceError):
        hr.Pipeline(DATA, hr.DeviceMemory(1000), device="host").run()
    with pytest.raises(ValueError):
        hr.Pipeline(DATA, hr.NULL).gathered()


# ---- statistics ----


def test_stats_are_a_readable_table():
    stats = hr.Pipeline(DATA, hr.NULL, decode="auto").run()
    text = repr(stats)
    assert "bottleneck" in text.splitlines()[0]
    for name, stage in stats.stages.items():
        assert any(line.startswith(name) for line in text.splitlines())
        assert stage.chunks > 0
    assert stats.bytes_in == stats.bytes_out == len(DATA)
    assert stats._repr_html_().count("<tr>") == 1 + len(stats.stages)
    assert "<script" not in stats._repr_html_()


@pytest.mark.parametrize("size", [0, 1, 100])
def test_stats_of_little_say_so(size):
    text = repr(hr.Pipeline(bytes(size), bytearray(size)).run())
    first, *table = text.splitlines()
    assert first.startswith(f"Stats: {size} bytes in, {size} out in ")
    assert ("nothing was moved" in first) == (size == 0) == (table == [])
    assert all(f"{size} B" in line for line in table[1:])


def test_stats_have_units_that_suit():
    stage = hr.StageStats(7, 12_345, 4 * 10**9, 0.0006, 2.5, 0, 1, 0)
    made = dict.fromkeys((field.name for field in dataclasses.fields(hr.Stats)), 0)
    made.update(wall_s=0.25, bottleneck="write", device="", io="uring", overlap=0.5, gain=2.0)
    little = hr.Stats(**{**made, "stages": {"write": stage}})
    assert "in 250 ms (uring): too little work to tell overlap" in little._summary()
    assert repr(little).splitlines()[2].split("  ")[0] == "write"
    for cell in ("12.3 kB", "4 GB", "600 us", "2.5 s", "0 us", "6,667 GB/s"):
        assert cell in repr(little) and cell in little._repr_html_()
    long = {"write": dataclasses.replace(stage, service_s=0.2)}
    assert "gain 2.00, bottleneck write" in repr(hr.Stats(**{**made, "stages": long}))


def test_stats_of_a_pipeline_that_runs(silent):
    pipeline = hr.Pipeline(silent, hr.NULL)
    runner = threading.Thread(target=lambda: pytest.raises(errors.CanceledError, pipeline.run))
    runner.start()
    for _ in range(50):
        assert pipeline.stats().bytes_in == 0
        assert pipeline.state == "running"
    pipeline.cancel()
    runner.join(SECONDS)
    assert pipeline.state == "failed"


def test_progress_is_told():
    told = []
    hr.Pipeline(DATA, hr.NULL).run(progress=told.append)
    assert told[-1].bytes_in == len(DATA)


def test_a_progress_function_that_fails_ends_the_transfer(silent):
    def fails(stats):
        raise KeyError

    with pytest.raises(KeyError):
        hr.Pipeline(silent, hr.NULL).run(progress=fails)


def test_a_bar_of_tqdm(capsys):
    pytest.importorskip("tqdm")
    hr.Pipeline(DATA, hr.NULL).run(progress=True)
    assert "2.86M" in capsys.readouterr().err


# ---- exceptions, cancelling, signals ----


class Fails(BytesIO):
    """A file whose n-th read or write raises."""

    def __init__(self, error, n, data=b""):
        super().__init__(data)
        self.error = error
        self.n = n

    def count(self):
        self.n -= 1
        if self.n < 0:
            raise self.error

    def readinto(self, view):
        self.count()
        return super().readinto(view)

    def write(self, view):
        self.count()
        return super().write(view)


@pytest.mark.parametrize("n", range(4))
@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, SystemExit, StopIteration])
def test_an_exception_of_an_end_is_raised_as_itself(io, n, kind):
    error = kind("x")
    with pytest.raises(kind) as caught:
        hr.Pipeline(Fails(error, n, DATA), hr.NULL, chunk_size=500_000, io=io).run()
    assert caught.value is error
    sink = Fails(error, n)
    with pytest.raises(kind) as caught:
        hr.Pipeline(DATA, sink, chunk_size=500_000, io=io).run()
    assert caught.value is error
    assert DATA.startswith(sink.getvalue())


def test_a_failed_pipeline_goes_on_to_fail():
    pipeline = hr.Pipeline(Fails(KeyError("x"), 0), hr.NULL)
    with pytest.raises(KeyError):
        pipeline.run()
    with pytest.raises(hr.HeadraceError):
        pipeline.run()
    assert pipeline.state == "failed"


def test_an_exception_leaves_nothing_behind():
    import weakref

    error = KeyError("x")
    pipeline = hr.Pipeline(Fails(error, 0), hr.NULL)
    with pytest.raises(KeyError):
        pipeline.run()
    gone = weakref.ref(pipeline)
    error.__traceback__ = None
    del pipeline
    gc.collect()
    assert gone() is None


def test_cancelling_from_another_thread(io, silent):
    for run in (lambda p: p.run(), lambda p: next(p)):
        pipeline = hr.Pipeline(silent, hr.NULL if "run" in run.__code__.co_names else None, io=io)
        timer = threading.Timer(0.05, pipeline.cancel)
        timer.start()
        with pytest.raises(errors.CanceledError):
            run(pipeline)
        timer.join()


def test_closing_from_another_thread_ends_a_run(io, silent):
    pipeline = hr.Pipeline(silent, hr.NULL, io=io)
    timer = threading.Timer(0.05, pipeline.close)
    timer.start()
    with pytest.raises(errors.CanceledError):
        pipeline.run()
    timer.join(SECONDS)
    assert pipeline.state == "closed"


@pytest.mark.parametrize("sink", ["hr.NULL", "None"])
def test_ctrl_c_interrupts_a_silent_pipe(python, io, sink):
    program = python(
        """
        import gc, os, sys, threading, headrace as hr
        before = None
        for _ in range(2):  # the first time, what stays in the process is made
            read, write = os.pipe()
            p = hr.Pipeline(read, eval(sys.argv[1]), io=sys.argv[2])
            print("started", flush=True)
            try:
                p.run() if eval(sys.argv[1]) is not None else next(p)
            except KeyboardInterrupt:
                print(p.state, flush=True)
            del p
            gc.collect()
            os.close(read); os.close(write)
            now = len(os.listdir("/proc/self/fd"))
            assert before in (None, now), (before, now)
            before = now
        """,
        sink,
        io,
    )
    for _ in range(2):
        assert program.stdout.readline() == "started\n", program.stderr.read()
        time.sleep(0.3)
        start = time.monotonic()
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "failed\n", program.stderr.read()
        assert time.monotonic() - start < 2
    assert program.wait(SECONDS) == 0, program.stderr.read()


def test_a_signal_handler_may_cancel(silent):
    pipeline = hr.Pipeline(silent, hr.NULL)
    before = signal.signal(signal.SIGALRM, lambda *_: pipeline.cancel())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(errors.CanceledError):
            pipeline.run()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_signals_do_not_end_a_run(io):
    read, write = os.pipe()
    n_signals = 0

    def handler(*_):
        nonlocal n_signals
        n_signals += 1
        if n_signals == 5:
            os.close(write)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        os.write(write, b"some")
        out = BytesIO()
        hr.Pipeline(read, out, io=io).run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(read)
    assert out.getvalue() == b"some"
    assert n_signals >= 5


# ---- threads ----


def test_one_iterator_is_shared_by_threads(io, tmp_path):
    (tmp_path / "in").write_bytes(DATA)
    pipeline = hr.Pipeline(tmp_path / "in", chunk_size=4096, io=io)
    got = {}

    def take():
        while True:
            try:
                chunk = next(pipeline)
            except StopIteration:
                return
            got[chunk.index] = chunk.numpy().tobytes()
            chunk.release()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert b"".join(got[i] for i in sorted(got)) == DATA


def test_each_chunk_by_another_thread_that_ends(io, tmp_path):
    (tmp_path / "in").write_bytes(DATA)
    read, write = os.pipe()
    feeder = threading.Thread(target=lambda: (os.write(write, DATA), os.close(write)))
    feeder.start()
    pipeline = hr.Pipeline([tmp_path / "in", read], chunk_size=65536, io=io)
    parts = []

    def take():
        chunk = next(pipeline, None)
        parts.append(None if chunk is None else chunk.numpy().tobytes())

    while not parts or parts[-1] is not None:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join(SECONDS)
    assert b"".join(parts[:-1]) == DATA + DATA
    feeder.join()
    os.close(read)


def test_threads_that_run_the_same_wait_for_its_end(io):
    read, write = os.pipe()
    pipeline = hr.Pipeline(read, hr.NULL, io=io)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(pipeline.run().crc32)) for _ in range(3)
    ]
    entered = threading.Semaphore(0)
    check = pipeline._check_run
    pipeline._check_run = lambda: (check(), entered.release())
    for thread in threads:
        thread.start()
    for _ in threads:
        assert entered.acquire(timeout=SECONDS)
    os.write(write, b"abc")
    os.close(write)
    for thread in threads:
        thread.join(SECONDS)
    assert found == [zlib.crc32(b"abc")] * 3
    os.close(read)


def test_dropped_in_another_thread_than_its_own(io, silent):
    pipelines = []

    def start():
        pipelines.append(hr.Pipeline([DATA, silent], chunk_size=65536, io=io))
        next(pipelines[0]).release()

    starter = threading.Thread(target=start)
    starter.start()
    starter.join(SECONDS)
    n_fds = len(os.listdir("/proc/self/fd"))
    pipelines.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) < n_fds


def test_many_threads_run_pipelines(io):
    found = []

    def work():
        for _ in range(10):
            found.append(hr.Pipeline(DATA, hr.NULL, chunk_size=100_000, io=io).run().crc32)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == [zlib.crc32(DATA)] * 80


def test_256_pipelines_at_once(io):
    pipelines = [hr.Pipeline(DATA[i : i + 9000], chunk_size=4096, io=io) for i in range(256)]
    parts = dict.fromkeys(range(256), b"")
    alive = dict(enumerate(pipelines))
    while alive:
        for i, pipeline in list(alive.items()):
            chunk = next(pipeline, None)
            if chunk is None:
                del alive[i]
            else:
                parts[i] += chunk.numpy().tobytes()
    assert all(parts[i] == DATA[i : i + 9000] for i in range(256))


# ---- asyncio ----


def test_asyncio_runs_several_at_once(io):
    async def work():
        read, write = os.pipe()
        out = BytesIO()
        slow = asyncio.ensure_future(hr.Pipeline(read, out, io=io).run_async())
        stats = await asyncio.gather(
            *(hr.Pipeline(DATA, hr.NULL, io=io).run_async() for _ in range(5))
        )
        assert {one.crc32 for one in stats} == {zlib.crc32(DATA)}
        assert not slow.done()
        os.write(write, b"at last")
        os.close(write)
        await slow
        os.close(read)
        assert out.getvalue() == b"at last"

    asyncio.run(work())


def test_asyncio_iterates(io):
    async def work():
        got = []
        async for chunk in hr.Pipeline(DATA, chunk_size=65536, io=io):
            got.append(chunk.numpy().tobytes())
        assert b"".join(got) == DATA

    asyncio.run(work())


def test_a_cancelled_task_ends_its_transfer(io, silent):
    async def work():
        pipeline = hr.Pipeline(silent, hr.NULL, io=io)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pipeline.run_async(), 0.05)
        assert pipeline.state == "closed"

    asyncio.run(work())


# ---- forks and the end of the process ----


@pytest.mark.parametrize("leave", ["sys.exit()", "os._exit(0)"])
def test_a_forked_child_is_told_to_spawn(python, io, leave):
    program = python(
        """
        import os, sys, warnings, headrace as hr
        warnings.simplefilter("ignore")
        data = bytes(5_000_000)
        p = hr.Pipeline(data, chunk_size=4096, io=sys.argv[1])
        chunk = next(p)
        child = os.fork()
        if child == 0:
            for use in (lambda: next(p), lambda: hr.Pipeline(b"x", hr.NULL), p.stats):
                try:
                    use()
                except RuntimeError as error:
                    assert "fork" in str(error) and "spawn" in str(error), error
                else:
                    os._exit(7)
            p.cancel(); p.close()
            del p, chunk, use
            exec(sys.argv[2])
        assert os.waitpid(child, 0)[1] == 0
        total = chunk.nbytes + sum(c.nbytes for c in p)
        assert total == len(data), total
        print("done")
        """,
        io,
        leave,
    )
    out, err = program.communicate(timeout=SECONDS)
    assert (out, err, program.returncode) == ("done\n", "", 0)


LEAVING = {
    "while it iterates": "p = hr.Pipeline(silent); threading.Timer(0.1, p.cancel).start()\n"
    "try: next(p)\nexcept hr.HeadraceError: sys.exit(3)",
    "started": "p = hr.Pipeline([bytes(10 ** 7), silent], chunk_size=4096)\n"
    "c = next(p); sys.exit(3)",
    "a daemon runs": "t = threading.Thread(target=hr.Pipeline(silent, hr.NULL).run, daemon=True)\n"
    "t.start(); time.sleep(0.2); sys.exit(3)",
    "a thread exits": "t = threading.Thread(target=lambda: (next(q), sys.exit(5)))\n"
    "q = hr.Pipeline([bytes(10 ** 7), silent], chunk_size=4096); t.start(); t.join(); sys.exit(3)",
    "in a callback": "class R:\n  def read(self, n): sys.exit(3)\nhr.Pipeline(R(), hr.NULL).run()",
    "a reader waits": "class R:\n  def read(self, n): time.sleep(0.5); return b'x'\n"
    "t = threading.Thread(target=hr.Pipeline(R(), hr.NULL).run, daemon=True)\n"
    "t.start(); time.sleep(0.2); sys.exit(3)",
    "an exception": "p = hr.Pipeline(silent); threading.Timer(0.1, p.cancel).start()\n"
    "sys.excepthook = lambda *_: None\n"
    "try: next(p)\nfinally: sys.exit(3)",
    "made but not run": "p = hr.Pipeline(silent, hr.NULL); sys.exit(3)",
}


@pytest.mark.parametrize("way", LEAVING)
def test_leaving_the_program(python, way):
    start = "import os, sys, threading, time, headrace as hr\nsilent = os.pipe()[0]\n"
    program = python(start + LEAVING[way])
    out, err = program.communicate(timeout=SECONDS)
    assert (out, err, program.returncode) == ("", "", 3)


# ---- again and again ----


@pytest.mark.parametrize("way", ["run", "iterate", "leave", "fail"])
def test_1000_repeats_leave_nothing(io, way, resources):
    data = DATA[:20_000]

    def once():
        if way == "run":
            hr.Pipeline(data, BytesIO(), chunk_size=4096, io=io).run()
        elif way == "iterate":
            sum(chunk.nbytes for chunk in hr.Pipeline(data, chunk_size=4096, io=io))
        elif way == "leave":
            next(hr.Pipeline(data, chunk_size=4096, io=io))
        else:
            with pytest.raises(KeyError):
                hr.Pipeline(Fails(KeyError(), 1, data), hr.NULL, chunk_size=4096, io=io).run()

    for _ in range(100):
        once()
    rss, n_fds, n_threads = resources()
    for _ in range(1000):
        once()
    rss_after, n_fds_after, n_threads_after = resources()
    assert n_fds_after <= n_fds
    assert n_threads_after <= n_threads
    assert rss_after - rss < 2048


@pytest.mark.parametrize("name", ["chunk_size", "depth", "streams", "frame_size", "min_fill"])
def test_sizes_that_cannot_be_are_told_by_name(name):
    for wrong, error in ((-5, ValueError), (1 << 64, ValueError), ("1M", TypeError)):
        with pytest.raises(error, match=f"{name} is "):
            hr.Pipeline(b"abc", hr.NULL, **{name: wrong})


def test_ctrl_c_while_it_is_made_leaves_nothing(monkeypatch, resources):
    made = _calls.box_open

    def interrupted(*arguments):
        made(*arguments)
        raise KeyboardInterrupt

    hr.Pipeline(b"", hr.NULL).run()
    n_fds = resources()[1]
    monkeypatch.setattr(_calls, "box_open", interrupted)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            hr.Pipeline(b"abc", hr.NULL)
    assert resources()[1] == n_fds


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_while_it_is_dropped_leaves_it_for_later(monkeypatch, resources):
    hr.Pipeline(b"", hr.NULL).run()
    n_fds = resources()[1]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        pipeline = hr.Pipeline(b"abc", hr.NULL)
        patched.setattr(_drive.Drive, "close", interrupted)
        del pipeline
    hr.Pipeline(b"", hr.NULL).run()
    assert resources()[1] == n_fds
