"""Which PJRT plugin the device runs on. Imports nothing of the package, so that the build can read it too."""

import glob
import importlib.util
import os
from pathlib import Path

# Package and file of each CPU plugin that PyPI has, the newest compiler first.
CPU_PLUGINS = (
    ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),
    ("fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
    ("xla_plugins.xla_cpu_pjrt", "xla_cpu_pjrt.so"),
)


def in_package(package: str, file: str) -> str | None:
    """Path of a file in a package, without importing the package."""
    parent, _, name = package.rpartition(".")
    try:
        spec = importlib.util.find_spec(parent or name)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, *([name] if parent else []), file)
        if path.exists():
            return str(path)
    return None


def cpu_plugins() -> list[str]:
    """Paths of the CPU plugins that are installed."""
    return [path for plugin in CPU_PLUGINS if (path := in_package(*plugin))]


def tpu_chips() -> bool:
    """Whether this machine has TPU chips: their device files."""
    return bool(glob.glob("/dev/accel[0-9]*") or glob.glob("/dev/vfio/[0-9]*"))


def find() -> str:
    """Path of the plugin: TORCH_TPU_PLUGIN, else libtpu where there are chips, else a CPU plugin; empty if none."""
    if path := os.environ.get("TORCH_TPU_PLUGIN"):
        return path
    if tpu_chips() and (path := in_package("libtpu", "libtpu.so")):
        return path
    return next(iter(cpu_plugins()), "")


def options(path: str) -> dict[str, bool | int]:
    """What a client of that plugin is created with."""
    if "cpu" not in Path(path).name:
        return {}
    # Where every launch is short, the hand-over to another thread costs more than the launch.
    return {"cpu_device_count": 1} | ({"asynchronous": False} if "lammps" in path else {})
