# SPDX-License-Identifier: Apache-2.0
"""Runs one pipeline on a loop of its own: step, wait, take chunks, cancel, close.

A busy transfer is driven in C, a few milliseconds at a time. Waiting is done here, in select.poll on
the loop's descriptor, so that signals are handled while a transfer waits. One thread at a time
drives; the loop goes to another thread when that one calls.
Closing ends the transfer and waits until nothing of it touches memory any more. In a callback,
where that cannot be waited for, what is dropped is kept, and closed at the next chance.

Ctrl-C may show between any two steps of Python. So locks are taken by ``with``, which leaves no
gap, and C puts what it makes where an owner is already (`_calls.new_owner`). An interrupted call
ends the transfer: what is on its way may be lost, but never a chunk of a stream that goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import threading
import time
import weakref
from typing import Any, Callable, Optional

from headrace import _array, _callbacks, _calls, errors
from headrace import _lent as _views
from headrace._library import ffi, lib, native

_EXIT_SECONDS = 5.0  # that a transfer is waited for at the interpreter's exit
_MOMENT_MS, _AT_MOST_MS = 1, 5  # that C waits for the next event, and drives without a look here
_STEP_MS = 1  # that an event loop waits for a step

_TOLD = (lib.HR_OK, lib.HR_END, lib.HR_ELOANED)  # by hr_pipeline_next, to who asks for a chunk

_here = threading.local()
_lists = threading.RLock()  # of the three lists
_all: weakref.WeakSet[Drive] = weakref.WeakSet()
_left: list[Drive] = []  # dropped, not closed yet
_lent: list[tuple[list[Any], Any]] = []  # what chunks may lie in and their box, of closed ones
_exiting = False
_process = object()  # stands for this one: os.getpid() is a system call, for every chunk


def _thread() -> object:
    """What stands for the calling thread: unlike idents, never that of one that has ended."""
    token: object = getattr(_here, "token", None)
    if token is None:
        token = _here.token = object()
    return token


class Drive:
    """A pipeline of C with its loop.

    Parameters
    ----------
    context : cffi pointer to hr_context
        Where memory is leased.
    loop_config, config : cffi pointers to the structs of C
        Of the loop and of the pipeline.
    keep : list
        Objects that must stay until nothing touches them. They go when the transfer has ended.
        Chunks on loan may lie in a source's own memory, which then stays as long as they.
    lent_from : list of (int, int), or None
        The sink is HR_PULL: addresses of the sources' own memory, begins and ends. None: it is not.
    failures : Failures
        Of the callbacks.

    Raises
    ------
    HeadraceError
        As hr_loop_create and hr_pipeline_create fail.
    """

    def __init__(
        self,
        context: Any,
        loop_config: Any,
        config: Any,
        keep: list[Any],
        lent_from: Optional[list[tuple[int, int]]],
        failures: _callbacks.Failures,
    ) -> None:
        close_left()
        # The first attribute goes first when this is forgotten; until then _keep is needed.
        self._box = _calls.new_box()  # empty: closed, also by a collector, in any order
        self._pid, self._process = os.getpid(), _process
        self._keep = keep
        self._pulls = lent_from is not None
        self._lent_from = lent_from or ()
        self._failures = failures
        self._turn = threading.RLock()  # of who drives, from start to end
        self._lock = threading.RLock()  # of calls on the loop, which are short
        self._handles = threading.RLock()  # box and pipeline are there, for cancel
        self._driving = False
        self._owner: Optional[object] = None
        self._error = _calls.new_error()
        self._paths = _calls.paths(config)
        _calls.box_open(context, loop_config, config, self._box)  # takes long; then Ctrl-C shows
        self._loop = native.hrp_box_loop(self._box[0])
        self._pipeline = native.hrp_box_pipeline(self._box[0])
        self.io = ffi.string(lib.hr_loop_io(self._loop, ffi.NULL)).decode()
        self._poll = select.poll()
        self._poll.register(lib.hr_loop_fd(self._loop), select.POLLIN)
        with _lists:
            _all.add(self)

    # ---- driving ----

    def _begin(self) -> None:
        """Makes this thread, which has the turn, the one that drives."""
        if self.closed:
            raise ValueError("the pipeline is closed")
        self._own()

    def _check_caller(self) -> None:
        if self._process is not _process:
            raise errors.in_child("pipeline", self._pid)
        if self._driving and _callbacks.inside():
            raise RuntimeError("the pipeline cannot be driven by a function that it calls")

    def _own(self) -> None:
        me = _thread()
        if self._owner is me:
            return
        if self._owner is not None:
            _calls.check(lib.hr_loop_take(self._loop, self._error), self._error)
        self._owner = me

    def _work(self, moment_ms: int = _MOMENT_MS, at_most_ms: int = _AT_MOST_MS) -> bool:
        """Does what there is to do, and comes within moments: False when it has ended."""
        with self._lock:
            status = native.hrp_loop_work(self._loop, moment_ms, at_most_ms, self._error)
            return bool(_calls.check(status, self._error))

    def _check_end(self) -> None:
        with self._lock:
            status = lib.hr_pipeline_state(self._pipeline, self._error)
        if not self._pulls:
            self._keep = []
        if status < 0:
            self._raise(status)

    def _arm(self) -> bool:
        """Whether there is nothing to do until the descriptor is readable; else it is."""
        return bool(lib.hr_loop_arm(self._loop) == lib.HR_OK)

    def _wait(self, timeout_ms: Optional[float] = None) -> None:
        if self._arm():
            self._poll.poll(timeout_ms)

    def _run_on(self, deadline: Optional[float] = None) -> bool:
        """Steps to the end; False if the time went by."""
        while self._work():
            left = None if deadline is None else (deadline - time.monotonic()) * 1000
            if left is not None and left <= 0:
                return False
            self._wait(left)
        return True

    def _end_early(self) -> None:
        self.cancel()
        self._run_on()

    def _raise(self, status: int) -> None:
        """Raises what ended the transfer: an exception of a callback as itself."""
        if _exiting:
            raise SystemExit
        failure = self._failures.take()
        if failure is None:
            raise errors.from_c(self._error, status, self._paths)
        try:
            raise failure
        finally:
            del failure

    def run(self, each: Optional[Callable[[], object]] = None, every_s: float = 0.1) -> None:
        """Runs it to its end.

        Parameters
        ----------
        each : callable, optional
            Called about every ``every_s`` seconds.

        Raises
        ------
        BaseException
            What a callback raised, or a signal handler; then nothing is in flight any more.
        HeadraceError
            Why the transfer failed.
        """
        self._check_caller()
        with self._turn:
            self._begin()
            try:
                self._driving = True
                if each is None:
                    self._run_on()
                else:
                    while not self._run_on(time.monotonic() + every_s):
                        each()
                self._check_end()
            except BaseException:
                self._end_early()
                raise
            finally:
                self._driving = False

    def step(self) -> bool:
        """Does what can be done at once, about a millisecond long, for foreign event loops.

        Returns
        -------
        bool
            True when it has ended well; False: it goes on when descriptor() is readable.
        """
        self._check_caller()
        with self._turn:
            self._begin()
            try:
                self._driving = True
                if self._work(0, _STEP_MS):
                    self._arm()
                    return False
                self._check_end()
                return True
            finally:
                self._driving = False

    def descriptor(self) -> int:
        """A descriptor to wait for between steps, which the caller closes: so it may outlive the
        transfer, and an event loop may have several of one transfer."""
        return int(self.look(lambda _: os.dup(lib.hr_loop_fd(self._loop))))

    def next_chunk(self, wait: bool = True) -> Any:
        """The next chunk, on loan.

        Parameters
        ----------
        wait : bool, default True
            False: does what can be done at once, about a millisecond long.

        Returns
        -------
        Array, None or NotImplemented
            The chunk; None: there is no more; NotImplemented: none is there yet.

        Raises
        ------
        LoanedError
            Every chunk is on loan. The transfer goes on when one is released.
        BaseException
            As ``run``.
        """
        hold, chunk = _calls.new_hold(), _calls.new_chunk()
        try:
            status = self._next(hold, chunk, wait)
            if status == lib.HR_OK:
                return _array.chunk_array(hold, chunk, self._lent_from)
        except BaseException:
            if hold[0] != ffi.NULL:
                self.cancel()  # nobody gets the chunk, behind which nothing is to come then
            raise
        if status == lib.HR_ELOANED:
            raise errors.from_c(self._error, status)
        return None if status == lib.HR_END else NotImplemented

    def _next(self, hold: Any, chunk: Any, wait: bool) -> int:
        """hr_pipeline_next: HR_OK, HR_END, HR_PENDING if it does not wait, or HR_ELOANED."""
        self._check_caller()
        with self._turn:
            self._begin()
            until = 0 if wait else time.monotonic() + _STEP_MS / 1000
            try:
                self._driving = True
                while True:
                    with self._lock:
                        status: int = native.hrp_box_next(self._box[0], chunk, hold, self._error)
                    if status in _TOLD:
                        return status
                    if status < 0:
                        self._raise(status)
                    if not wait and (self._arm() or time.monotonic() >= until):
                        return status
                    self._wait()
            except BaseException:
                self._end_early()
                raise
            finally:
                self._driving = False

    def gathered(self, context: Any) -> Optional[tuple[Any, int]]:
        """As `_calls.gathered`."""
        found: Optional[tuple[Any, int]] = self.look(
            lambda _: _calls.gathered(self._box[0], context)
        )
        return found

    # ---- looking ----

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._box[0]

    def look(self, call: Callable[[Any], Any]) -> Any:
        """What call(pipeline) returns, between two steps of who drives."""
        if self._process is not _process:
            raise errors.in_child("pipeline", self._pid)
        with self._lock:
            if self.closed:
                raise ValueError("the pipeline is closed")
            return call(self._pipeline)

    # ---- the end ----

    def cancel(self) -> None:
        """Ends the transfer early. Any thread, also a signal handler."""
        with self._handles:
            if not self.closed and self._process is _process:
                lib.hr_pipeline_cancel(self._pipeline)
                self._failures.stop()

    def finish(self, timeout_s: Optional[float] = None) -> bool:
        """Cancels, and waits until nothing is in flight.

        Returns
        -------
        bool
            False: the time went by.
        """
        if self.closed or self._process is not _process:
            return True
        self._check_caller()
        self.cancel()
        if timeout_s is None:
            with self._turn:
                return self._drain(None)
        deadline = time.monotonic() + timeout_s
        if not self._turn.acquire(timeout=timeout_s):
            return False
        try:
            return self._drain(deadline)
        finally:
            self._turn.release()

    def _drain(self, deadline: Optional[float]) -> bool:
        if self.closed or self._owner is None:
            return True  # it was never started
        if self.look(lambda p: lib.hr_pipeline_state(p, ffi.NULL)) != lib.HR_PENDING:
            return True
        self._own()
        return self._run_on(deadline)

    def close(
        self, timeout_s: Optional[float] = None, last_look: Optional[Callable[[], None]] = None
    ) -> None:
        """finish, then gives everything back; nothing, if the time went by.

        Parameters
        ----------
        timeout_s : float, optional
            Seconds.
        last_look : callable, optional
            Called when all has ended and is still there.
        """
        if not self.finish(timeout_s) or self._process is not _process:
            return
        with self._turn, self._lock, self._handles:
            if self.closed:
                return
            if last_look is not None:
                last_look()
            self._rehouse()
            with _lists:
                _lent.append((self._keep, self._box))
            self._box, self._pipeline, self._keep = _calls.new_box(), None, []
        close_left()

    def dropped(self) -> None:
        """Closes it now or later: nobody refers to it any more."""
        if self.closed or self._process is not _process:
            return
        self._rehouse()
        if _callbacks.inside():
            self.cancel()
            self._leave_it()
            return
        try:
            self.close()
        except KeyboardInterrupt:  # which a destructor cannot pass on
            self._leave_it()
            raise

    def _rehouse(self) -> None:
        """A collector that has found the place of the box will end it, whatever refers to it now."""
        box = _calls.new_box()
        native.hrp_box_move(self._box, box)
        self._box = box

    def give_up(self) -> None:
        """What has not ended is left to the system: it is not waited for any more."""
        if not self.closed:
            ffi.gc(self._box, None)

    def _leave_it(self) -> None:
        with _lists:
            _left.append(self)


def close_left() -> None:
    """Closes what was dropped where it could not be closed, and gives up what the sources of closed
    pipelines lie in, when no chunk is left of them."""
    give_back()
    if _callbacks.inside() or not _left:
        return
    with _lists:
        left, _left[:] = _left[:], []
    for drive in left:
        drive.dropped()


def give_back() -> None:
    """Gives up what the sources of closed pipelines lie in, when no chunk is left of them."""
    for closed in list(_lent):
        keep, box = closed
        if not keep or not box[0] or native.hrp_box_n_users(box[0]) == 1:
            with _lists:
                _lent[:] = [other for other in _lent if other is not closed]
        del keep, box, closed  # the box goes with the last reference


def _at_exit() -> None:
    """Nothing may call into the interpreter when it is gone."""
    global _exiting
    _exiting = True
    with _lists:
        drives = list(_all)
    for drive in drives:
        drive.cancel()
    until = time.monotonic() + _EXIT_SECONDS
    for drive in drives:
        with contextlib.suppress(Exception):  # what fails now has nobody to be told
            drive.close(timeout_s=max(until - time.monotonic(), 0.01))
        drive.give_up()


def _after_fork() -> None:
    global _lists, _process
    _lists = threading.RLock()  # whose holder is not in the child
    _process = object()


_views.keepers.append(give_back)
os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
