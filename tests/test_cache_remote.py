"""A cache behind a URL: any file system of fsspec, which is waited for only so long."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torch_tpu.__main__ import main

WORK = """
import sys, time, torch, torch_tpu

def work(sizes):
    for n in sizes:
        assert torch.arange(float(n)).tpu().mul_(2).sum().item() == n * (n - 1), n

def stats():
    return torch.tpu.compile_stats()
"""
PROGRAM = (
    WORK
    + """
work(range(3, 8))
s = stats()
print(s["compiles"], s["remote_hits"])
"""
)
# A file system whose answers take as long as one says, or are errors.
ODD = """
import fsspec
from fsspec.implementations.memory import MemoryFileSystem

class Odd(MemoryFileSystem):
    protocol = "odd"
    delay, error = 0.0, None
    def cat_file(self, *args, **options):
        time.sleep(self.delay)
        if self.error: raise self.error
        return super().cat_file(*args, **options)
    def pipe_file(self, *args, **options):
        time.sleep(self.delay)
        if self.error: raise self.error
        return super().pipe_file(*args, **options)

fsspec.register_implementation("odd", Odd)
"""


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def test_the_second_process_compiles_nothing(python: Any, tmp_path: Path, capsys: Any) -> None:
    url = f"local://{tmp_path}/cache"
    first, none = numbers(python(PROGRAM, TORCH_TPU_CACHE_DIR=url).out)
    assert first > 5 and none == 0
    assert {p.suffix for p in (tmp_path / "cache").iterdir()} == {".entry"}
    got = python(PROGRAM + "from torch_tpu import _C; print(_C.cache_traffic())", TORCH_TPU_CACHE_DIR=url)
    assert numbers(got.out.splitlines()[0]) == [0, first] and got.err == ""
    traffic = eval(got.out.splitlines()[1])
    assert traffic["remote_bytes_read"] == traffic["shared_bytes_written"] > 1000, "other processes need not ask again"

    def command(*args: str, status: int = 0) -> Any:
        assert main(["cache", *args, "--json"]) == status
        return json.loads(capsys.readouterr().out)

    rows = command("ls", url)
    assert len(rows) == first and all("aten::" in row["name"] for row in rows)
    assert command("stat", url)["bytes"] == sum(p.stat().st_size for p in (tmp_path / "cache").iterdir())
    damaged = next((tmp_path / "cache").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert list(command("verify", url, status=1)["damaged"]) == [damaged.name]
    said = python(PROGRAM, TORCH_TPU_CACHE_DIR=url)
    assert numbers(said.out) == [1, first - 1] and said.err.count("is dropped") == 1
    assert command("verify", url)["damaged"] == {}
    assert command("prune", url, "--all")["removed"] == first
    assert not list((tmp_path / "cache").iterdir())


def test_in_memory(python: Any) -> None:
    got = python(
        WORK
        + """
work(range(3, 20))
first = stats()["compiles"]
time.sleep(1)
work(range(3, 20))
s = stats()
print(first, s["compiles"], s["remote_hits"])
""",
        TORCH_TPU_CACHE_DIR="memory://cache",
        TORCH_TPU_PROGRAM_BYTES="500000",
        TORCH_TPU_SHARED_DIR="",
    )
    first, compiles, hits = numbers(got.out)
    assert compiles == first and hits > 20 and got.err == ""


def test_what_is_slow_is_not_waited_for(python: Any) -> None:
    got = python(
        WORK
        + ODD
        + """
Odd.delay = 100.0
start = time.monotonic()
work(range(3, 8))
print(stats()["compiles"], int(time.monotonic() - start))
""",
        TORCH_TPU_CACHE_DIR="odd://cache",
        TORCH_TPU_CACHE_TIMEOUT="0.3",
    )
    compiles, seconds = numbers(got.out)
    assert compiles > 5 and seconds < 90
    assert got.err.count("odd://cache: no answer within 300 ms") == 1 and got.err.count("torch_tpu:") == 1


def test_what_fails_is_told_once(python: Any) -> None:
    got = python(
        WORK
        + ODD
        + """
Odd.error = PermissionError("no entry")
work(range(3, 8))
Odd.error = None
work(range(8, 12))
""",
        TORCH_TPU_CACHE_DIR="odd://cache",
    )
    assert got.err.count("odd://cache: no entry") == 1 and got.err.count("torch_tpu:") == 1


def test_what_is_missing_names_the_extra(python: Any) -> None:
    got = python("import sys; sys.modules['fsspec'] = None\n" + PROGRAM, TORCH_TPU_CACHE_DIR="s3://bucket/cache")
    assert got.err.count("pip install 'torchtpu[remote]'") == 1 and numbers(got.out)[1] == 0
    got = python(PROGRAM, TORCH_TPU_CACHE_DIR="nothing://bucket/cache")
    assert "nothing" in got.err and got.err.count("torch_tpu:") == 1


def test_writes_end_before_the_process(python: Any) -> None:
    start = time.monotonic()
    got = python(
        WORK + ODD + "Odd.delay = 0.5\nwork([3])\nOdd.delay = 100.0\nwork([4, 5])",
        TORCH_TPU_CACHE_DIR="odd://cache",
        TORCH_TPU_CACHE_TIMEOUT="1",
    )
    assert time.monotonic() - start < 60
    assert got.err.count("torch_tpu:") == 1


def test_a_forked_child_asks_too(python: Any, tmp_path: Path) -> None:
    url = f"local://{tmp_path}/cache"
    code = (
        WORK
        + """
import os
if os.fork() == 0:
    work([3, 4])
    print(stats()["remote_hits"], flush=True)
    from torch_tpu import _register
    _register._finish()
    os._exit(0)
os.wait()
"""
    )
    assert numbers(python(code, TORCH_TPU_CACHE_DIR=url).out) == [0]
    assert numbers(python(code, TORCH_TPU_CACHE_DIR=url).out)[0] > 2


@pytest.fixture
def bucket() -> Iterator[str]:
    """Where an S3 server on this machine listens, which has a bucket named `bucket`."""
    code = """
import boto3, time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://127.0.0.1:{port}"
boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="bucket")
print(endpoint, flush=True)
time.sleep(600)
"""
    env = {**os.environ, **CREDENTIALS}
    server = subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout
        yield next(line.strip() for line in server.stdout if line.startswith("http://127.0.0.1:"))
    finally:
        server.kill()
        server.wait()


CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def test_s3(python: Callable[..., Any], bucket: str) -> None:
    env = {**CREDENTIALS, "FSSPEC_S3_ENDPOINT_URL": bucket}
    url = "s3://bucket/some/folder"
    first, none = numbers(python(PROGRAM, TORCH_TPU_CACHE_DIR=url, **env).out)
    assert first > 5 and none == 0
    got = python(PROGRAM, TORCH_TPU_CACHE_DIR=url, **env)
    assert numbers(got.out) == [0, first] and got.err == ""
    said = python(PROGRAM, TORCH_TPU_CACHE_DIR="s3://another/folder", **env)
    assert numbers(said.out) == [first, 0] and said.err.count("torch_tpu:") == 1
    done = subprocess.run(
        [sys.executable, "-m", "torch_tpu", "cache", "stat", url, "--json"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["entries"] == first
