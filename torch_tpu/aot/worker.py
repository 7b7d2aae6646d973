"""The process that loads libtpu: ``python -m torch_tpu.aot.worker LIBTPU TOPOLOGY IN OUT`` (two file descriptors).

Compiles one program after the other, as the parent asks. libtpu ends the process on some errors: the parent sees that.
"""

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Files that the compiler writes of a module, by what follows the module's name.
OPTIMIZED = (".after_codegen.txt", ".after_optimizations.txt")
LIVE_AT_PEAK = ".after_optimizations-live-range.txt"


def main(libtpu: str, topology: str, requests: int, answers: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    inbox, outbox = Connection(requests, writable=False), Connection(answers, readable=False)
    import torch  # noqa: F401

    from torch_tpu import _C

    try:
        known = _C.Topology(libtpu, topology)
    except Exception as error:
        outbox.send(("error", str(error)))
        return
    outbox.send(
        (
            "ready",
            {
                "platform_version": known.platform_version,
                "attributes": known.attributes,
                "devices": known.devices,
            },
        )
    )
    with tempfile.TemporaryDirectory(prefix="torch_tpu_aot.") as folder:
        while True:
            try:
                request = inbox.recv()
            except EOFError:
                return
            outbox.send(answer(known, request, Path(folder) / "dump"))


def answer(known: Any, request: dict[str, Any], dump: Path) -> tuple[str, dict[str, Any]]:
    overrides = dict(request["options"])
    # The compiler's own text of its program: PJRT gives a protocol buffer only.
    overrides |= {"xla_dump_to": str(dump), "xla_dump_hlo_as_text": True}
    devices = [device["id"] for device in known.devices][: request["replicas"] * request["partitions"]]
    found: dict[str, Any] = {}
    start = time.monotonic()
    try:
        compiled = known.compile(request["program"], request["replicas"], request["partitions"], devices, overrides)
        found["seconds"] = time.monotonic() - start
        found |= {"memory": compiled.memory, "cost": compiled.cost}
        if request["serialize"]:
            found["executable"] = compiled.serialize()
    except Exception as error:
        found |= {"error": str(error), "kind": type(error).__name__, "seconds": time.monotonic() - start}
    found["hlo"] = next((text for suffix in OPTIMIZED if (text := _read(dump, suffix))), "")
    found["live"] = _read(dump, LIVE_AT_PEAK)
    shutil.rmtree(dump, ignore_errors=True)
    return ("done", found)


def _read(folder: Path, suffix: str) -> str:
    return next((path.read_text(errors="replace") for path in sorted(folder.glob(f"*{suffix}"))), "")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.flush()
    os._exit(0)  # no destructors of libtpu
