"""One process at a time may load libtpu."""

import contextlib
import fcntl
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# libtpu's own, which it holds from its load to the end of the process. It tells a second process to remove the file.
THEIRS = Path("/tmp/libtpu_lockfile")
FLOCK = "hhqqi4x"  # struct flock of Linux on 64 bits


class Held(RuntimeError):
    """Another process has libtpu."""


_holders: set[int] = set()  # threads of this process


def ours() -> Path:
    return Path(tempfile.gettempdir()) / f"torch_tpu_libtpu.{os.getuid()}.lock"


def _command(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({text[:120]})"


def foreign_holder() -> int:
    """Id of the process that holds libtpu's own lock; 0 if none."""
    try:
        fd = os.open(THEIRS, os.O_RDWR)
    except OSError:
        return 0
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    finally:
        os.close(fd)
    return pid if kind != fcntl.F_UNLCK else 0


@contextlib.contextmanager
def libtpu_lock(wait: float) -> Iterator[int]:
    """Held while a process of ours has libtpu loaded. Waits so many seconds for others, and says for whom.

    Yields the file descriptor, for a worker to inherit: the lock then lasts until the worker has ended too.
    """
    me = threading.get_ident()
    if me in _holders:
        raise Held("this thread has libtpu already: leave one compiler before you enter another")
    fd = os.open(ours(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _wait(fd, wait)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        _holders.add(me)
        yield fd
    finally:
        _holders.discard(me)
        os.close(fd)


def _wait(fd: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    told = False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder = foreign_holder()
            if not holder:
                return
            fcntl.flock(fd, fcntl.LOCK_UN)
        except BlockingIOError:
            text = os.pread(fd, 32, 0)
            holder = int(text) if text.isdigit() else 0
        who = _command(holder) if holder else "another process"
        if time.monotonic() >= deadline:
            raise Held(f"libtpu can be loaded by one process at a time, and {who} has it (waited {seconds:g} s)")
        if not told:
            print(f"waiting for libtpu, which {who} has", file=sys.stderr)
            told = True
        time.sleep(0.1)
