"""A cache directory behind a URL, by fsspec: ``TORCH_TPU_CACHE_DIR=s3://bucket/folder``.

Two threads take tasks from the compiled part, which waits for reads at most for a while and never for writes. They are
started with the package, and import fsspec when there is something to do.
"""

import importlib
import os
import threading
from typing import Any

from torch_tpu import _C

BUCKETS = tuple(f"{protocol}://" for protocol in ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss"))


class Files:
    """A folder of any file system that fsspec knows."""

    def __init__(self, url: str) -> None:
        try:
            fsspec = importlib.import_module("fsspec.core")
            self.system, self.path = fsspec.url_to_fs(url)
        except ImportError as error:
            raise ImportError(
                f"{url} needs fsspec and its package for this URL: pip install 'torchtpu[remote]' ({error})"
            ) from error
        self.url = url

    def get(self, name: str, size: int | None = None) -> bytes | None:
        try:
            return self.system.cat_file(f"{self.path}/{name}", start=0, end=size)
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        path = f"{self.path}/{name}"
        try:
            self.system.pipe_file(path, data)
        except FileNotFoundError:
            if self.url.startswith(BUCKETS):  # which exists, or is not ours to create
                raise
            self.system.makedirs(self.path, exist_ok=True)
            self.system.pipe_file(path, data)

    def remove(self, name: str) -> None:
        try:
            self.system.rm_file(f"{self.path}/{name}")
        except FileNotFoundError:
            pass

    def list(self) -> list[dict[str, Any]]:
        try:
            return [info for info in self.system.ls(self.path, detail=True, refresh=True) if info["type"] == "file"]
        except FileNotFoundError:
            return []


def _move(url: str, reads: bool) -> None:
    files = None
    while task := _C.remote_next(reads):
        kind, number, name, data = task
        found, wrong = None, ""
        try:
            files = files or Files(url)
            if kind == "get":
                found = files.get(name)
            elif kind == "put":
                files.put(name, data)
            else:
                files.remove(name)
        except Exception as error:
            wrong = str(error) or type(error).__name__
        _C.remote_done(number, found, wrong)


_threads: list[threading.Thread] = []


def _start(url: str) -> None:
    for reads in (True, False):
        _threads.append(threading.Thread(target=_move, args=(url, reads), name="torch_tpu cache", daemon=True))
        _threads[-1].start()


def _start_again(url: str) -> None:
    """In a forked child, which has none of the threads."""
    _threads.clear()
    _C.remote_reset()
    _start(url)


def start() -> None:
    """Serves the cache of the environment, where that is a URL."""
    url = _C.cache_place()
    if "://" in url:
        _start(url)
        os.register_at_fork(after_in_child=lambda: _start_again(url))


def finish() -> None:
    """Waits until what was compiled is written, for a while."""
    if _threads:
        _C.remote_close()
        for thread in _threads:
            thread.join(timeout=1)
