"""``torch.distributed`` on tpu: the backend ``tpu_dist``, one process per device.

``torch.distributed.init_process_group("tpu_dist")`` is all there is to do; no name needs to be imported from here.
"""

import datetime

import torch.distributed as dist

from torch_tpu import _C


def register() -> None:
    """Names the backend. Builds of PyTorch without ``torch.distributed`` go without."""
    if dist.is_available():
        dist.Backend.register_backend("tpu_dist", _make, devices="tpu")


def _make(store: "dist.Store", rank: int, size: int, timeout: datetime.timedelta) -> "dist.ProcessGroup":
    if _C.started():
        _C.synchronize()  # the ranks meet here: none may wait for what another has only recorded
    host = dist.ProcessGroupGloo(dist.PrefixStore("tpu_dist", store), rank, size, timeout=timeout)
    return _C.make_process_group(host)
