"""A contestant's process, on one core, which answers requests (worker.py, floor.cc)."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any

from bench.contestants import Contestant


class Failed(Exception):
    """A contestant gave no figures: the last that it said."""


class Process:
    def __init__(self, contestant: Contestant, env: dict[str, str], core: int | None, limit: float) -> None:
        self.limit, self.late = limit, False
        self.said = tempfile.TemporaryFile("w+")
        pin = ["taskset", "-c", str(core)] if core is not None else []
        self.child = subprocess.Popen(
            [*pin, *contestant.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            env=env | {"BENCH_START": str(time.perf_counter())},
            start_new_session=True,  # so that what it starts (a compiler) ends with it
        )

    def ask(self, request: str) -> dict[str, Any]:
        assert self.child.stdin is not None and self.child.stdout is not None
        timer = threading.Timer(self.limit, self.give_up)
        timer.start()
        try:
            self.child.stdin.write(request + "\n")
            self.child.stdin.flush()
            line = self.child.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        answer = json.loads(line) if line else {"error": self.last_words()}
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def give_up(self) -> None:
        self.late = True
        self.kill()

    def kill(self) -> None:
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def last_words(self) -> str:
        status = self.child.wait()
        if self.late:
            return f"no answer in {self.limit:g} s"
        self.said.seek(0)
        lines = [line.strip() for line in self.said if line.strip()]
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"{how}: {lines[-1]}" if lines else how

    def end(self) -> None:
        """Lets it leave by itself, so that it finishes what it writes to its cache."""
        assert self.child.stdin is not None and self.child.stdout is not None
        try:
            self.child.stdin.close()
            self.child.wait(self.limit)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        self.kill()
        self.child.wait()
        self.child.stdout.close()
        self.said.close()
