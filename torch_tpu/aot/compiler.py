"""Compiles StableHLO for a TPU that is not here, in a worker process."""

import contextlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from torch_tpu.aot.lock import libtpu_lock
from torch_tpu.aot.optimized import Optimized
from torch_tpu.aot.target import Chip, libtpu, topology

# As the device's own programs are compiled (csrc/runtime/device.cc).
OPTIONS = {"xla_allow_excess_precision": False}


class CompileError(RuntimeError):
    """The compiler refuses a program, or does not survive it (``crashed``)."""

    def __init__(self, reason: str, *, crashed: bool = False, hlo: str = "", live: str = "") -> None:
        super().__init__(reason)
        self.crashed = crashed
        self.optimized = Optimized(hlo, live)  # as far as the compiler came

    @property
    def out_of_memory(self) -> bool:
        return any(words in str(self) for words in ("Ran out of memory", "RESOURCE_EXHAUSTED", "CompileTimeHbmOom"))


@dataclass(frozen=True)
class Compiled:
    """A program as the compiler made it."""

    chip: Chip
    memory: dict[str, int]  # bytes: arguments, outputs, temporaries, aliased, code
    cost: dict[str, float]  # the compiler's cost analysis: "flops", "bytes accessed", "optimal_seconds", ...
    hlo: str  # the optimized program as text
    seconds: float  # that the compile took
    live: str = field(default="", repr=False)
    executable: bytes = field(default=b"", repr=False)

    @property
    def hbm(self) -> int:
        """Bytes of the chip's memory while it runs."""
        m = self.memory
        return m["arguments"] + m["outputs"] - m["aliased"] + m["temporaries"] + m["code"]

    @cached_property
    def optimized(self) -> Optimized:
        return Optimized(self.hlo, self.live)

    @property
    def flops(self) -> float:
        return max(0.0, self.cost.get("flops", 0.0))  # -1: not known

    @property
    def bytes_accessed(self) -> float:
        return max(0.0, self.cost.get("bytes accessed", 0.0))

    @property
    def estimated_seconds(self) -> float:
        """The estimated cycles of the optimized program, else the cost analysis' figure, which may be none (0).

        docs/measurements.md has what it is worth.
        """
        cycles = self.optimized.cycles
        return self.chip.seconds(cycles) if cycles else max(0.0, self.cost.get("optimal_seconds", 0.0))


class Compiler:
    """The compiler of one target, as a context manager: holds libtpu's lock, and restarts a worker that dies.

    ``timeout`` is for one program, ``wait`` for other users of libtpu; both in seconds.
    """

    def __init__(self, target: str, *, timeout: float = 600, wait: float = 300) -> None:
        self.topology, self.timeout, self.wait = topology(target), timeout, wait
        self._library = libtpu()
        self._exit = contextlib.ExitStack()
        self._worker: _Worker | None = None
        self._lock = -1

    def __enter__(self) -> "Compiler":
        self._lock = self._exit.enter_context(libtpu_lock(self.wait))
        try:
            self._start()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._exit.close()

    def _start(self) -> "_Worker":
        self._worker = _Worker(self._library, self.topology, self._lock)
        about = self._worker.hello
        devices = about["devices"]
        self.chip = Chip(
            topology=self.topology,
            kind=devices[0]["kind"],
            memory=int(devices[0]["attributes"].get("device_memory_bytes_limit", 0)),
            devices=len(devices),
            compiler=about["platform_version"].replace("\n", ", "),
            attributes=about["attributes"],
        )
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def compile(
        self,
        program: str,
        *,
        replicas: int = 1,
        partitions: int = 1,
        options: dict[str, Any] | None = None,
        serialize: bool = False,
    ) -> Compiled:
        """One program, as StableHLO text. Raises CompileError."""
        if self._lock < 0:
            raise RuntimeError("Compiler is a context manager: use `with Compiler(target) as compiler`")
        request = {
            "program": program,
            "replicas": replicas,
            "partitions": partitions,
            "options": OPTIONS | (options or {}),
            "serialize": serialize,
        }
        worker = self._worker or self._start()
        try:
            found = worker.ask(request, self.timeout)
        except _Died as death:
            self._stop()
            raise CompileError(str(death), crashed=True) from None
        except BaseException:  # such as Ctrl-C: what the worker answers now, nobody asked
            self._stop()
            raise
        if "error" in found:
            raise CompileError(found["error"].strip(), hlo=found["hlo"], live=found["live"])
        return Compiled(chip=self.chip, **found)


class _Died(Exception):
    pass


class _Worker:
    """A process that has libtpu loaded."""

    START = 120.0  # seconds to load torch and libtpu
    TICK = 0.5

    def __init__(self, library: str, topology: str, lock: int) -> None:
        self._log = tempfile.TemporaryFile()
        theirs_in, requests = os.pipe()
        answers, theirs_out = os.pipe()
        quiet = {
            # Without this it asks a metadata server, for minutes.
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_WORKER_HOSTNAMES": "localhost",
            "TPU_LOG_DIR": "disabled",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "TORCH_TPU_PLUGIN": "",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torch_tpu.aot.worker", library, topology, str(theirs_in), str(theirs_out)],
            env={**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(theirs_in, theirs_out, lock),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._requests = Connection(requests, readable=False)
        self._answers = Connection(answers, writable=False)
        try:
            kind, self.hello = self._receive(self.START, "did not start")
        except BaseException as error:
            self.close()
            raise RuntimeError(f"the TPU compiler {error}") if isinstance(error, _Died) else error from None
        if kind == "error":
            self.close()
            raise RuntimeError(self.hello)

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        try:
            self._requests.send(request)
        except BrokenPipeError:
            pass  # it has died: why is told below
        return self._receive(timeout, "gave no answer")[1]

    def _receive(self, timeout: float, silent: str) -> tuple[str, Any]:
        # Counted in short waits: where both processes were stopped for a while, that is none of the compiler's time.
        left = timeout
        try:
            while not self._answers.poll(min(self.TICK, left)):
                left -= self.TICK
                if left <= 0:
                    raise _Died(f"{silent} in {timeout:g} s")
            return self._answers.recv()
        except EOFError:
            code = self._process.wait()
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            raise _Died(f"ended with {how}: {self._last_words() or 'it said nothing'}") from None

    def _last_words(self) -> str:
        """What it said before it died: the line of the failed check, and what follows up to the stack."""
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        at = next((i for i, line in enumerate(lines) if line.startswith("F") or "Check failed" in line), len(lines) - 3)
        words = [line for line in lines[max(at, 0) :] if not line.startswith(("@", "***", "PC:"))]
        return " ".join(words[:3])[:600]

    def close(self) -> None:
        for end in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                end.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
