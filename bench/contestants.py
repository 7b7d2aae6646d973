"""Who takes part: the command of each, its environment, and what is missing where it cannot."""

import ctypes.util
import os
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKER = str(HERE / "worker.py")
PLUGINS = runpy.run_path(str(HERE.parent / "torch_tpu/_plugin.py"))
GET_PEERS = "`make bench` makes it, or bench/setup.sh"
GET_BUILD = "`make bench` builds it, or `cmake --preset bench && ninja -C build/bench`"
DEFER = {"TORCH_TPU_DEFER_AND_FUSE": "1"}  # TorchTPU's mode goes by the same name
TIER2 = Path("/dev/shm/torch_tpu_cache")  # of TorchTPU
# What a caller may have set that would change a contestant unseen.
CLEARED = ("JAX_", "LD_PRELOAD", "OMP_", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_TPU_", "TPU_LIBRARY_PATH", "XLA_")


@dataclass(frozen=True)
class Contestant:
    key: str  # as rows.py has it
    name: str  # for people
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    needs: tuple[tuple[Path, str], ...] = ()  # files, and how to get each
    ours: bool = False

    @property
    def missing(self) -> str:
        return next((f"{path} is not there; {how}" for path, how in self.needs if not path.exists()), "")


def contestants(peers: Path, build: Path, exported: Path) -> dict[str, Contestant]:
    """`peers`: where setup.sh put them; `build`: of the preset bench; `exported`: programs for the floor."""
    torch = [sys.executable, WORKER]
    jax = peers / "jax/bin/python"
    plugin = {"TORCH_TPU_PLUGIN": PLUGINS["find"]()}
    found = [
        Contestant("strict", "Strict", [*torch, "tpu"], plugin, ours=True),
        Contestant("defer", "DeferAndFuse", [*torch, "tpu"], plugin | DEFER, ours=True),
        Contestant("cpu", "CPU eager", [*torch, "cpu"], {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}),
        Contestant("inductor", "inductor", [*torch, "inductor"], {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}),
        Contestant("jax", "jax.jit", [str(jax), WORKER, "jax"], {"JAX_PLATFORMS": "cpu"}, ((jax, GET_PEERS),)),
    ]
    needs = ((build / "tpu_bench", GET_BUILD),)
    found.append(
        Contestant("engine", "C++", [*torch, "engine", str(build / "tpu_bench")], plugin, needs, ours=True),
    )
    needs = ((build / "tpu_floor", GET_BUILD), (jax, GET_PEERS))
    found.append(Contestant("floor", "floor", [str(build / "tpu_floor"), str(exported)], plugin, needs))
    return {one.key: one for one in [*found, *torchtpu(peers, build)]}


def torchtpu(peers: Path, build: Path) -> list[Contestant]:
    python, shim = peers / "torchtpu/bin/python", build / "torchtpu_plugin.so"
    env = {
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # it looks for chips: cases_torch.py starts it without
        "TPU_LIBRARY_PATH": str(shim),
        "BENCH_PLUGIN": next(iter(PLUGINS["cpu_plugins"]()), ""),
    }
    # TorchTPU asks for it.
    local = next((peers / "tcmalloc").rglob("libtcmalloc_minimal.so.4"), None)
    if library := ctypes.util.find_library("tcmalloc_minimal") or local:
        env["LD_PRELOAD"] = str(library)
    command, needs = [str(python), WORKER, "torchtpu"], ((python, GET_PEERS), (shim, GET_BUILD))
    return [
        Contestant("torchtpu-strict", "TorchTPU Strict", command, env, needs),
        Contestant("torchtpu-defer", "TorchTPU DeferAndFuse", command, env | DEFER, needs),
    ]


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the caches of one contestant, and what goes by its name in shared memory."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        try:
            yield Path(folder)
        finally:
            for shared in TIER2.glob(f"{Path(folder).name}-*"):
                shutil.rmtree(shared, ignore_errors=True)


def environment(contestant: Contestant, folder: Path, keeps_cache: bool) -> dict[str, str]:
    """Of one process, its caches in `folder`. What peers do not keep by default they keep only where asked."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}
    if not contestant.ours:
        env.pop("PYTHONPATH", None)
    env |= {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    if contestant.key.startswith("torchtpu"):
        # In shared memory, a new one for each process: what is warm is on disk. (An executable that was read from there
        # is serialized once more for shared memory, and a CPU plugin cannot load that.)
        env["TORCH_TPU_TIER2_COMPILATION_CACHE"] = f"{folder.name}-{time.monotonic_ns()}"
        if keeps_cache:
            env["TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT"] = str(folder / "torchtpu")
    elif contestant.ours:
        env["TORCH_TPU_CACHE_DIR"] = str(folder / "ours")
    elif keeps_cache:
        env["JAX_COMPILATION_CACHE_DIR"] = str(folder / "jax")
        env |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    return env | contestant.env
