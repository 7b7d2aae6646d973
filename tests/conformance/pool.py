"""Hands pairs to worker processes, and outlives those that crash or hang."""

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import connection
from pathlib import Path
from typing import Any

from . import worker
from .verdict import Verdict

Pair = tuple[str, str]

START_SECONDS = 300  # for a worker to import torch on a busy machine
PAIRS_A_WORKER = 150  # then it is replaced: programs are never dropped, and memory is


class Broken(Exception):
    """The sweep itself failed, not the device."""


class Worker:
    """A worker process, and the pair it is at."""

    def __init__(self, samples: int, mode: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        descriptor, self.log = tempfile.mkstemp(prefix="conformance-")
        os.close(descriptor)
        self.process = context.Process(target=worker.main, args=(theirs, samples, mode, self.log), daemon=True)
        self.process.start()
        theirs.close()
        self.ready = False
        self.pair: Pair | None = None
        self.stage = "starting"
        self.waited = 0.0
        self.done = 0
        self._read = 0

    def give(self, pair: Pair) -> None:
        self.pair, self.stage, self.waited = pair, "", 0.0
        self._read = Path(self.log).stat().st_size
        self.pipe.send(pair)

    def last_words(self) -> str:
        """What the process printed since it took the pair: the line that most looks like a reason."""
        text = Path(self.log).read_bytes()[self._read :].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        telling = [line for line in lines if any(w in line for w in ("Check failed", "what()", "Fatal", "terminate"))]
        return (telling or lines[-1:] or [""])[0][:200]

    def end(self) -> int | None:
        """Ends the process if it still runs; returns how it ended."""
        self.process.join(0.2)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()
        Path(self.log).unlink(missing_ok=True)
        return self.process.exitcode


def sweep(pairs: list[Pair], *, workers: int, samples: int, mode: str, timeout: float) -> Iterator[Verdict]:
    """A verdict for each pair, in the order in which they come."""
    waiting = list(reversed(pairs))
    running = [Worker(samples, mode) for _ in range(min(workers, len(pairs)))]
    try:
        while running:
            start = time.monotonic()
            connection.wait([w.pipe for w in running], timeout=1)
            # No more than a tick: where the whole sweep was stopped for a while, that is nobody's fault.
            waited = min(time.monotonic() - start, 1.0)
            for w in list(running):
                w.waited += waited
                verdict, over = _listen(w, timeout)
                if verdict is not None:
                    yield verdict
                if over:
                    running.remove(w)
                    w.end()
                    if waiting:
                        running.append(Worker(samples, mode))
                elif w.ready and w.pair is None:
                    if not waiting:
                        running.remove(w)
                        w.pipe.close()
                        w.end()
                    else:
                        w.give(waiting.pop())
    finally:
        for w in running:
            w.process.kill()
            w.end()


def _listen(w: Worker, timeout: float) -> tuple[Verdict | None, bool]:
    """(a verdict that came, whether the worker is at its end)."""
    try:
        while w.pipe.poll():
            kind, content = w.pipe.recv()
            if kind == worker.PROGRESS:
                w.stage = content
            elif kind == worker.READY:
                w.ready = True
            elif kind == worker.DONE:
                w.pair = None
                w.done += 1
                return Verdict.from_json(content), w.done == PAIRS_A_WORKER
            else:
                verdict, w.pair = _verdict(w, "error", f"the sweep itself: {content}"), None
                return verdict, False
    except (EOFError, ConnectionResetError):
        return _ended(w), True
    if w.pair is not None and w.waited > timeout:
        return _verdict(w, "hang", f"no answer in {timeout:.0f} s"), True
    if not w.ready and w.waited > START_SECONDS:
        raise Broken(f"a worker did not start in {START_SECONDS} s: {w.last_words()}")
    return None, False


def _ended(w: Worker) -> Verdict:
    w.process.join(5)
    code = w.process.exitcode
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    if w.pair is None:
        raise Broken(f"a worker ended with no work to do, {how}: {w.last_words()}")
    return _verdict(w, "crash", f"{how} {w.last_words()}".strip())


def _verdict(w: Worker, ended: str, reason: str) -> Verdict:
    assert w.pair is not None
    record: dict[str, Any] = {"seconds": round(w.waited, 2), "ended": ended}
    return Verdict(*w.pair, **record, reason_ended=f"{reason}, at {w.stage or 'its start'}")
