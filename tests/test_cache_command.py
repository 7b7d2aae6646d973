"""``python -m torch_tpu cache``: what is in a directory of compiled programs, and what may go."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from torch_tpu import _C, _cache_command, _cache_place
from torch_tpu.__main__ import main

PROGRAM = """
import torch
x = torch.arange(6.0).tpu()
print((x + 1).sum().item(), (x[:3] * 2).tolist())
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that one program made."""
    folder = tmp_path_factory.mktemp("made") / "cache"
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True)
    return folder


@pytest.fixture
def cache(made: Path, tmp_path: Path) -> Path:
    """A copy of it, whose entries were used one after the other."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for i, path in enumerate(sorted(made.iterdir())):
        (folder / path.name).write_bytes(path.read_bytes())
        os.utime(folder / path.name, (0, time.time() - 86400 * i))
    return folder


def run(capsys: Any, *args: object, status: int = 0) -> str:
    assert main(["cache", *map(str, args)]) == status
    return capsys.readouterr().out


def test_ls_names_the_programs(capsys: Any, cache: Path) -> None:
    text = run(capsys, "ls", cache)
    assert "aten::sum" in text and "aten::add" in text
    rows = json.loads(run(capsys, "ls", cache, "--json"))
    assert {row["file"] for row in rows} == {p.name for p in cache.iterdir()}
    assert [row["used"] for row in rows] == sorted((row["used"] for row in rows), reverse=True)
    for row in rows:
        assert row["file"] == row["key"] + ".entry" and row["executable_size"] > 100 and row["program_size"] > 100
        assert row["made_by"].startswith(f"torch_tpu {_C.version}, cpu by ")
        assert row["key"][:8] in text


def test_stat(capsys: Any, cache: Path) -> None:
    figures = json.loads(run(capsys, "stat", cache, "--json"))
    entries = list(cache.iterdir())
    assert figures["entries"] == len(entries) == sum(figures["made_by"].values())
    assert figures["bytes"] == sum(p.stat().st_size for p in entries)
    assert figures["budget"] == 4 << 30
    assert f"entries  {len(entries)}" in run(capsys, "stat", cache)


def test_verify_finds_what_is_damaged(capsys: Any, cache: Path) -> None:
    assert "0 damaged" in run(capsys, "verify", cache)
    first, second, third = sorted(cache.iterdir())[:3]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    second.write_bytes(third.read_bytes())
    damaged = json.loads(run(capsys, "verify", cache, "--json", status=1))["damaged"]
    assert damaged == {first.name: "it is damaged", second.name: f"it is the entry of {third.stem}"}
    third.write_bytes(b"no entry")
    assert f"{third.name}: it is cut short" in run(capsys, "verify", cache, status=1)
    assert "? it is cut short" in run(capsys, "ls", cache)


def test_prune_by_size_age_and_all(capsys: Any, cache: Path) -> None:
    entries = sorted(cache.iterdir())  # those used last come first
    (cache / "1-1.part").write_text("unfinished")
    (cache / "note").write_text("of the user")
    kept = entries[:-1]
    assert "removed 1 files" in run(capsys, "prune", cache, "--older-than", f"{len(kept)}d")
    assert set(kept) < set(cache.iterdir()) and not entries[-1].exists()
    kept = kept[:2]
    budget = sum(p.stat().st_size for p in kept)
    run(capsys, "prune", cache, "--bytes", budget, "--dry-run")
    assert len(list(cache.iterdir())) == len(entries) + 1
    run(capsys, "prune", cache, "--bytes", budget)
    assert {p for p in cache.iterdir() if p.suffix == ".entry"} == set(kept)
    left = json.loads(run(capsys, "prune", cache, "--all", "--json"))
    assert left["removed"] == 3 and left["entries"] == 0
    assert [p.name for p in cache.iterdir()] == ["note"]


def test_what_it_is_not_told(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TPU_CACHE_DIR", str(tmp_path))
    assert json.loads(run(capsys, "stat", "--json"))["place"] == str(tmp_path)
    assert main(["cache", "prune"]) == 2 and "--all" in capsys.readouterr().err
    assert main(["cache", "ls", str(tmp_path / "none")]) == 2 and "no directory" in capsys.readouterr().err
    monkeypatch.setenv("TORCH_TPU_CACHE_DIR", "")
    assert main(["cache", "ls"]) == 2 and "the cache is off" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "bytes"), [("500", 500), ("1.5k", 1500), ("2Gi", 2 << 30), ("3 MB", 3_000_000), ("4KiB", 4096)]
)
def test_sizes(text: str, bytes: int) -> None:
    assert _cache_command.size(text) == bytes


def test_the_oldest_go_first() -> None:
    now = time.time()
    entries = [_cache_place.Entry(str(i), 10, now - i) for i in range(5)]
    assert _cache_place.to_remove(entries, 25, None) == entries[2:]
    assert _cache_place.to_remove(entries, None, 2.5) == entries[3:]
    assert _cache_place.to_remove(entries, 100, 100) == []


def test_it_starts_no_device_and_reads_nothing_else(python: Any, made: Path) -> None:
    help_text = python("import sys; from torch_tpu.__main__ import main; main(['cache', '--help'])").out
    assert "examples:" in help_text and "verify" in help_text
    python(f"""
        import sys
        from torch_tpu.__main__ import main
        assert main(["cache", "verify", {str(made)!r}]) == 0
        import torch
        assert not torch.tpu.is_initialized()
    """)
    done = subprocess.run([sys.executable, "-m", "torch_tpu", "--help"], capture_output=True, text=True, check=True)
    assert "compiled programs" in done.stdout
