"""The device's random numbers: one generator, whose state is its seed and how far it was used."""

from collections.abc import Iterable

import torch

from torch_tpu import _C
from torch_tpu.device.devices import DeviceLike, index_of


def get_rng_state(device: DeviceLike = "tpu") -> torch.Tensor:
    index_of(device)
    return _C.default_generator().get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "tpu") -> None:
    index_of(device)
    _C.default_generator().set_state(new_state.clone(memory_format=torch.contiguous_format))


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    _C.default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def seed() -> None:
    """Seeds from the system's entropy."""
    _C.default_generator().seed()


def seed_all() -> None:
    seed()


def initial_seed() -> int:
    return _C.default_generator().initial_seed()


# As torch.cuda.default_generators: indexed by device.
default_generators: tuple[torch.Generator, ...] = (_C.default_generator(),)
