"""The cache of compiled programs as a set of files, for tools: nothing here starts the device."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from torch_tpu import _C
from torch_tpu._remote_cache import Files

SUFFIX, UNFINISHED = ".entry", ".part"


@dataclass
class Entry:
    file: str
    size: int
    used: float  # seconds since the epoch


class Place(ABC):
    """Where entries are."""

    def entries(self) -> list[Entry]:
        """Those used last come first."""
        return sorted(self._files(SUFFIX), key=lambda e: (-e.used, e.file))

    def unfinished(self) -> list[Entry]:
        return list(self._files(UNFINISHED))

    @abstractmethod
    def _files(self, suffix: str) -> Iterator[Entry]: ...

    @abstractmethod
    def read(self, entry: Entry, size: int = -1) -> bytes | None:
        """The first bytes, or all; None where it has gone."""

    @abstractmethod
    def remove(self, entry: Entry) -> None: ...


class Folder(Place):
    """A local directory."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def _files(self, suffix: str) -> Iterator[Entry]:
        with os.scandir(self.path) as files:
            for file in files:
                if file.name.endswith(suffix) and file.is_file(follow_symlinks=False):
                    try:
                        info = file.stat(follow_symlinks=False)
                    except FileNotFoundError:  # removed meanwhile, by a process that keeps the budget
                        continue
                    yield Entry(file.name, info.st_size, info.st_mtime)

    def read(self, entry: Entry, size: int = -1) -> bytes | None:
        try:
            with open(self.path / entry.file, "rb") as file:
                return file.read(size)
        except FileNotFoundError:
            return None

    def remove(self, entry: Entry) -> None:
        (self.path / entry.file).unlink(missing_ok=True)


class Url(Place):
    """What a URL names, by fsspec."""

    def __init__(self, url: str) -> None:
        self.files = Files(url)

    def __str__(self) -> str:
        return self.files.url

    def _files(self, suffix: str) -> Iterator[Entry]:
        for info in self.files.list():
            if info["name"].endswith(suffix):
                yield Entry(info["name"].rsplit("/", 1)[-1], info["size"] or 0, written_at(info))

    def read(self, entry: Entry, size: int = -1) -> bytes | None:
        return self.files.get(entry.file, size if size >= 0 else None)

    def remove(self, entry: Entry) -> None:
        self.files.remove(entry.file)


def written_at(info: dict[str, Any]) -> float:
    """Under the names that file systems of fsspec have for it; nobody notes there when an entry is used."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        when = info.get(name)
        if isinstance(when, str):
            when = datetime.fromisoformat(when)
        if when:
            return when.timestamp() if isinstance(when, datetime) else float(when)
    return 0.0


def to_remove(entries: list[Entry], budget: int | None, age: float | None) -> list[Entry]:
    """Of entries with those used last first: those unused for ``age`` seconds, and those beyond ``budget`` bytes."""
    oldest = time.time() - age if age is not None else 0
    total = 0
    for i, entry in enumerate(entries):
        total += entry.size
        if entry.used < oldest or (budget is not None and total > budget):
            return entries[i:]
    return []


def open_place(where: str | None) -> Place:
    """``where``, or the one of the environment. Errors say what to do."""
    path = _C.cache_place() if where is None else where.removeprefix("file://")
    if not path:
        raise ValueError("the cache is off (TORCH_TPU_CACHE_DIR is empty): name a directory")
    if "://" in path:
        return Url(path)
    if not os.path.isdir(path):
        raise ValueError(f"{path} is no directory: nothing was cached there yet")
    return Folder(path)
