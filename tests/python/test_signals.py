# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and cancel: what is still called after them, what waits for a peer, and what is lost when
they come between any two steps."""

import errno
import gc
import os
import signal
import time

import pytest

hr = pytest.importorskip("headrace")
from headrace import _callbacks, _drive  # noqa: E402
from headrace._library import ffi, native  # noqa: E402

SECONDS = 20


def test_after_ctrl_c_no_function_that_was_queued_is_called():
    calls = []

    def function(x, out, call):
        calls.append(call.chunk)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        while not pipeline._failures.stopped:  # until the interrupt has come to who runs it
            time.sleep(0.001)

    pipeline = hr.Pipeline(
        bytes(4000), hr.NULL, kernels=[function], device="host", chunk_size=100, depth=40, streams=1
    )
    with pytest.raises(KeyboardInterrupt):
        pipeline.run()
    assert calls == [0]  # of 40
    with pytest.raises(ValueError, match="has failed, and runs once"):
        pipeline.run()


@pytest.mark.parametrize("stops", ["cancel", "interrupt"])
def test_a_call_that_waits_for_the_interpreter_is_given_up(stops):
    calls = []
    failures = _callbacks.Failures()
    user = _callbacks.handle(lambda call: calls.append(call) or 0, failures)
    assert _callbacks.kernel(user, ffi.NULL) == 0
    failures.stop() if stops == "cancel" else failures.keep(KeyboardInterrupt())
    assert _callbacks.kernel(user, ffi.NULL) == errno.EIO
    assert len(calls) == 1


def test_ctrl_c_on_the_way_to_a_function_is_not_lost(monkeypatch):
    """It shows in the trampoline, before the function: as C would have it, it has no caller."""
    failures = _callbacks.Failures()
    user = _callbacks.handle(lambda call: 0, failures)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_callbacks, "_call", interrupted)
        assert _callbacks.kernel(user, ffi.NULL) == errno.EIO
    assert isinstance(failures.take(), KeyboardInterrupt)
    assert not _callbacks.inside()


def test_a_fifo_does_not_block_the_event_loop(python, tmp_path, io):
    os.mkfifo(tmp_path / "fifo")
    program = python(
        """
        import asyncio, os, sys, headrace as hr

        async def main(fifo, io):
            reads = asyncio.create_task(hr.Pipeline(fifo, out := bytearray(3), io=io).run_async())
            await asyncio.sleep(0)
            await hr.Pipeline(b"abc", fifo, io=io).run_async()
            await reads
            writes = asyncio.create_task(hr.Pipeline(b"abc", fifo, io=io).run_async())
            await asyncio.sleep(0)
            writes.cancel()
            await asyncio.gather(writes, return_exceptions=True)
            print(out.decode(), writes.cancelled())

        asyncio.run(main(*sys.argv[1:]))
        """,
        str(tmp_path / "fifo"),
        io,
    )
    assert program.communicate(timeout=SECONDS) == ("abc True\n", "")


def test_ctrl_c_at_any_step_leaves_nothing_behind(python):
    """A storm of signals, each at a moment of its own: no chunk stays lent, no descriptor open, and
    no lock taken."""
    program = python(
        """
        import gc, os, random, signal, sys, threading, numpy
        import headrace as hr
        from headrace import _drive
        from headrace._library import native

        def handler(*_):
            raise KeyboardInterrupt

        def double(x, out, call):
            numpy.multiply(x, 2, out=out)

        def work(i):
            pipeline = hr.Pipeline(
                iter([bytes(3000)]) if i % 2 else bytes(3000),
                chunk_size=500, depth=8, kernels=[double] if i % 3 else [],
            )
            kept = []
            for chunk in pipeline:
                kept += [chunk.numpy(), numpy.from_dlpack(chunk)]
                kept += [chunk.__dlpack__(max_version=(1, 0))]
                if i % 4 == 0:
                    chunk.release()
            if i % 5 == 0:
                pipeline.close()

        def left():
            gc.collect()
            _drive.close_left()
            return native.hrp_n_holds(), len(os.listdir("/proc/self/fd"))

        signal.signal(signal.SIGALRM, handler)
        sys.unraisablehook = lambda _: None  # a destructor cannot pass it on
        for i in range(12):
            work(i)
        before = left()
        moment = random.Random(1)
        n = 0
        for i in range(500):
            try:
                signal.setitimer(signal.ITIMER_REAL, moment.uniform(2e-5, 2e-3))
                work(i)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                n += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        thread = threading.Thread(target=work, args=(1,))
        thread.start()
        thread.join(10)
        print(n > 10, thread.is_alive(), left() == before, *left())
        """
    )
    out, err = program.communicate(timeout=SECONDS)
    assert out.startswith("True False True 0 ") and not err, (out, err)


def test_what_is_in_a_cycle_is_collected_in_any_order():
    class Holder:
        pass

    gc.collect()
    _drive.close_left()
    before = native.hrp_n_holds()
    for i in range(12):
        holder = Holder()
        holder.itself = holder
        holder.pipeline = hr.Pipeline(bytes(3000), chunk_size=500, depth=8)
        holder.chunk = next(holder.pipeline)
        view = holder.chunk.numpy() if i % 2 else None
        del holder
        gc.collect()
        assert view is None or not view.any()
    del view
    _drive.close_left()
    assert native.hrp_n_holds() == before
