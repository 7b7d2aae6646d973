"""Runs one function on every rank of a process group, each rank a process: ``python -m tests.ranks`` is one of them."""

import datetime
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def start(
    function: Callable[..., None], size: int, *arguments: str, mode: str = "strict", timeout: int = 60, **env: str
) -> list[subprocess.Popen[str]]:
    """Starts ``function(*arguments)``, of a test file, on ``size`` ranks of the group ``tpu_dist``."""
    store = tempfile.mktemp(prefix="torch_tpu_ranks_")  # the group's file; the last rank removes it
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tests.ranks", function.__module__, function.__name__, *arguments],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
                "RANKS": f"{rank} {size} {store} {mode} {timeout}",
                "OMP_NUM_THREADS": "1",
                **env,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def run(function: Callable[..., None], size: int, *arguments: str, **how: str) -> None:
    """As :func:`start`, and every rank must end well."""
    processes = start(function, size, *arguments, **how)  # type: ignore[arg-type]
    try:
        ended = [(p.communicate(timeout=120), p.returncode) for p in processes]
    finally:
        for p in processes:
            p.kill()
    failed = [f"rank {r}: {code}\n{out[-1000:]}\n{err[-3000:]}" for r, ((out, err), code) in enumerate(ended) if code]
    assert not failed, "\n".join(failed)


def main(module: str, name: str, arguments: Sequence[str]) -> None:
    import torch.distributed as dist

    import torch_tpu

    rank, size, store, mode, timeout = os.environ["RANKS"].split()
    torch_tpu.eager_mode(mode)
    dist.init_process_group(
        "cpu:gloo,tpu:tpu_dist",
        init_method=f"file://{store}",
        rank=int(rank),
        world_size=int(size),
        timeout=datetime.timedelta(seconds=int(timeout)),
    )
    getattr(importlib.import_module(module), name)(*arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
