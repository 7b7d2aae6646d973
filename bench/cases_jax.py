"""The cases in JAX: each a jitted function, its state donated. Also writes the steps for the floor (floor.cc)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from measure import STEPS, Measurement, arrival, decoding, decoding_cold, growing, steady, timed
from models_jax import Step, gpt_caches, gpt_params, gpt_token, gpt_train, mlp_train

TRAINED: dict[str, Callable[[], Step]] = {"mlp": mlp_train, "gpt": gpt_train}
POSITIONS = 256


def setup(_: str) -> Callable[[str], Measurement]:
    return lambda case: CASES[case]()


def versions(_: str) -> dict[str, str]:
    return {"jax": jax.__version__, "jaxlib (an XLA of its own)": jaxlib.__version__}


add = jax.jit(lambda a, b: a + b)


def two() -> tuple[jax.Array, jax.Array]:
    return jnp.ones((16, 16)), jnp.full((16, 16), 1e-3)


def chain() -> Measurement:
    x, y = two()

    def run() -> None:
        z = x
        for _ in range(100):
            z = add(z, y)
        np.asarray(z)

    return steady(run, 100)


def add_read() -> Measurement:
    x, y = two()

    def run() -> None:
        for _ in range(100):
            np.asarray(add(x, y))

    return steady(run, 100)


class Trainer:
    def __init__(self, name: str) -> None:
        train, self.state, self.batch = TRAINED[name]()
        self.jitted = jax.jit(train, donate_argnums=0)

    def step(self) -> jax.Array:
        self.state, loss = self.jitted(self.state, *self.batch)
        return loss

    def several(self, steps: int) -> float:
        for _ in range(steps):
            loss = self.step()
        return float(loss)

    def peak(self) -> int:
        """Bytes while a step runs: all arrays that live then, results beyond what is donated, temporaries."""
        planned = self.jitted.lower(self.state, *self.batch).compile().memory_analysis()
        live = sum(x.nbytes for x in jax.live_arrays())
        results = max(0, planned.output_size_in_bytes - planned.alias_size_in_bytes)
        return live + results + planned.temp_size_in_bytes


def mlp() -> Measurement:
    trainer = Trainer("mlp")
    return steady(lambda: trainer.several(STEPS["mlp"]), STEPS["mlp"])


def gpt() -> Measurement:
    trainer = Trainer("gpt")
    peak = trainer.peak()
    measure = steady(lambda: trainer.several(STEPS["gpt"]), STEPS["gpt"], warm=2)
    return lambda: measure() | {"bytes": peak}


def first(name: str) -> Callable[[], Measurement]:
    def case() -> Measurement:
        trainer = Trainer("gpt")
        jax.block_until_ready(trainer.state)
        return lambda: {name: timed(lambda: trainer.several(1))}

    return case


def token_at() -> Callable[[int], int]:
    params, caches = gpt_params(POSITIONS), gpt_caches(POSITIONS)
    jitted = jax.jit(gpt_token, donate_argnums=0)
    token = jnp.zeros((1, 1), jnp.int32)

    def step(position: int) -> int:
        nonlocal caches, token
        caches, token = jitted(caches, params, token, position)
        return token.item()

    return step


def grow(each: bool) -> Measurement:
    one = jnp.ones(1)
    longer = jax.jit(lambda x: jnp.concatenate([x, one]))
    return growing(one, longer, np.asarray, each)


CASES: dict[str, Callable[[], Measurement]] = {
    "chain": chain,
    "add_read": add_read,
    "mlp": mlp,
    "gpt": gpt,
    "decode": lambda: decoding(token_at()),
    "decode_cold": lambda: decoding_cold(token_at()),
    "grow_each": lambda: grow(each=True),
    "grow_end": lambda: grow(each=False),
    "first_cold": first("cold"),
    "first_warm": first("warm"),
    "import": lambda: arrival(lambda: jax.block_until_ready(jnp.asarray(np.ones(1, np.float32)))),
}


def export(folder: str) -> None:
    """The steps of training as StableHLO, with what they start from."""
    for name, make in TRAINED.items():
        train, state, batch = make()
        path = Path(folder) / name
        path.with_suffix(".mlir").write_text(jax.jit(train, donate_argnums=0).lower(state, *batch).as_text())
        leaves: list[Any] = jax.tree.leaves(state)
        lines = []
        for i, leaf in enumerate([*leaves, *batch]):
            file = f"{name}.{i}.bin"
            (path.parent / file).write_bytes(np.asarray(leaf).tobytes())
            lines.append(f"{leaf.dtype} {','.join(map(str, leaf.shape)) or '-'} {file}\n")
        path.with_suffix(".inputs").write_text("".join(lines))
        path.with_suffix(".about").write_text(f"{len(leaves)} {STEPS[name]}\n")
