"""The same cases in JAX: each a jitted function, state donated."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Case = tuple[Callable[[], object], int]
HEADS, WIDTH, LAYERS, CACHE, VOCABULARY = 4, 128, 4, 256, 96
draw = np.random.default_rng(0)


def setup() -> tuple[Callable[[str], Case | None], dict[str, str]]:
    import jaxlib

    table = {"chain": chain, "add_read": add_read, "record": record, "mlp": mlp, "mlp_async": mlp_async}
    table |= {"decode": decode, "gpt": gpt, "gpt_async": gpt_async}
    return (lambda name: table[name]()), {"jax": jax.__version__, "jaxlib (its own XLA)": jaxlib.__version__}


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(draw.standard_normal(shape, dtype=np.float32) * shape[0] ** -0.5)


add = jax.jit(lambda a, b: a + b)


def two() -> tuple[jax.Array, jax.Array]:
    return jnp.ones((16, 16)), jnp.full((16, 16), 1e-3)


def chain() -> Case:
    x, y = two()

    def run() -> None:
        z = x
        for _ in range(100):
            z = add(z, y)
        np.asarray(z)

    return run, 100


def add_read() -> Case:
    x, y = two()

    def run() -> None:
        for _ in range(100):
            np.asarray(add(x, y))

    return run, 100


def record() -> Case:
    x, y = two()

    def run() -> None:
        for _ in range(1000):
            add(x, y)

    return run, 1000


def linear(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ layer["w"] + layer["b"]


def make_linear(inputs: int, outputs: int) -> dict[str, jax.Array]:
    return {"w": normal(inputs, outputs), "b": jnp.zeros(outputs)}


# A step of training: state and batch in; new state and loss out; and what it starts from.
Step = tuple[Callable[..., tuple[Any, jax.Array]], Any, tuple[jax.Array, ...]]


def mlp_train() -> Step:
    state = [make_linear(*size) for size in ((784, 512), (512, 512), (512, 10))]
    x, target = normal(64, 784), jnp.asarray(draw.integers(0, 10, 64))

    def loss_of(params, x, target):
        for layer in params[:-1]:
            x = jax.nn.relu(linear(layer, x))
        logits = jax.nn.log_softmax(linear(params[-1], x))
        return -jnp.take_along_axis(logits, target[:, None], 1).mean()

    def train(params, x, target):
        loss, grads = jax.value_and_grad(loss_of)(params, x, target)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss

    return train, state, (x, target)


def export(folder: str) -> None:
    """The steps as StableHLO, with what they start from: see floor.cc."""
    for name, make in TRAINED.items():
        train, state, batch = make()
        path = Path(folder) / name
        path.with_suffix(".mlir").write_text(jax.jit(train, donate_argnums=0).lower(state, *batch).as_text())
        leaves = jax.tree.leaves(state)
        lines = []
        for i, leaf in enumerate([*leaves, *batch]):
            file = f"{name}.{i}.bin"
            (path.parent / file).write_bytes(np.asarray(leaf).tobytes())
            lines.append(f"{leaf.dtype} {','.join(map(str, leaf.shape)) or '-'} {file}\n")
        path.with_suffix(".inputs").write_text("".join(lines))
        path.with_suffix(".state").write_text(str(len(leaves)))


def stepper(name: str) -> Callable[[], jax.Array]:
    train, state, batch = TRAINED[name]()
    jitted = jax.jit(train, donate_argnums=0)

    def step() -> jax.Array:
        nonlocal state
        state, loss = jitted(state, *batch)
        return loss

    return step


def read_each(name: str, steps: int) -> Case:
    step = stepper(name)

    def run() -> None:
        for _ in range(steps):
            float(step())

    return run, steps


def read_last(name: str, steps: int) -> Case:
    step = stepper(name)

    def run() -> None:
        for _ in range(steps):
            loss = step()
        float(loss)

    return run, steps


def mlp() -> Case:
    return read_each("mlp", 20)


def mlp_async() -> Case:
    return read_last("mlp", 20)


def gpt() -> Case:
    return read_each("gpt", 4)


def gpt_async() -> Case:
    return read_last("gpt", 8)


def gpt_train() -> Step:
    """The GPT of torch_tpu.demo with AdamW, gradients clipped at 1."""
    context, batch = 128, 16
    sizes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}

    def make_norm() -> dict[str, jax.Array]:
        return {"w": jnp.ones(WIDTH), "b": jnp.zeros(WIDTH)}

    def initial(key: str, size: tuple[int, int]) -> dict[str, jax.Array]:
        return {"w": normal(*size) * 0.02 * size[0] ** 0.5, "b": jnp.zeros(size[1])}

    params: dict[str, Any] = {
        "token": normal(VOCABULARY, WIDTH) * 0.2,
        "position": normal(context, WIDTH) * 0.2,
        "blocks": [
            {name: initial(name, size) for name, size in sizes.items()} | {"norm1": make_norm(), "norm2": make_norm()}
            for _ in range(LAYERS)
        ],
        "norm": make_norm(),
        "head": normal(WIDTH, VOCABULARY) * 0.2,
    }
    tokens = jnp.asarray(draw.integers(0, VOCABULARY, (batch, context + 1)), dtype=jnp.int32)
    causal = jnp.tril(jnp.ones((context, context), bool))

    def layer_norm(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return norm(x, layer["w"]) + layer["b"]

    def loss_of(params, inputs, targets):
        x = params["token"][inputs] + params["position"]
        for block in params["blocks"]:
            split = linear(block["qkv"], layer_norm(block["norm1"], x)).reshape(batch, context, 3, HEADS, -1)
            q, k, v = split.transpose(2, 0, 3, 1, 4)
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
            weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))
            seen = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(batch, context, WIDTH)
            x = x + linear(block["out"], seen)
            hidden = jax.nn.gelu(linear(block["up"], layer_norm(block["norm2"], x)), approximate=False)
            x = x + linear(block["down"], hidden)
        logits = jax.nn.log_softmax(layer_norm(params["norm"], x) @ params["head"])
        return -jnp.take_along_axis(logits, targets[..., None], -1).mean()

    def train(state, inputs, targets):
        params, first, second, count = state
        loss, grads = jax.value_and_grad(loss_of)(params, inputs, targets)
        length = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / (length + 1e-6)), grads)
        count = count + 1
        first = jax.tree.map(lambda m, g: m + 0.1 * (g - m), first, grads)
        second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, grads)

        def update(p, m, v):
            p = p * (1 - 3e-4 * (0.1 if p.ndim >= 2 else 0.0))
            return p - 3e-4 / (1 - 0.9**count) * m / (jnp.sqrt(v / (1 - 0.95**count)) + 1e-8)

        return (jax.tree.map(update, params, first, second), first, second, count), loss

    zeros = [jax.tree.map(jnp.zeros_like, params) for _ in range(2)]
    return train, (params, *zeros, jnp.zeros(())), (tokens[:, :-1], tokens[:, 1:])


TRAINED: dict[str, Callable[[], Step]] = {"mlp": mlp_train, "gpt": gpt_train}


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def decode() -> Case:
    sizes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    blocks = [
        {name: make_linear(*size) for name, size in sizes.items()}
        | {"before": jnp.ones(WIDTH), "after": jnp.ones(WIDTH)}
        for _ in range(LAYERS)
    ]
    embedding, head = normal(VOCABULARY, WIDTH), make_linear(WIDTH, VOCABULARY)
    caches = [[jnp.zeros((HEADS, CACHE, WIDTH // HEADS)) for _ in range(2)] for _ in range(LAYERS)]

    def token_at(caches, token, position):
        x = embedding[token]
        mask = jnp.arange(CACHE) <= position
        made = []
        for block, (keys, values) in zip(blocks, caches, strict=True):
            q, k, v = linear(block["qkv"], norm(x, block["before"])).reshape(3, HEADS, -1)
            keys = jax.lax.dynamic_update_slice(keys, k[:, None], (0, position, 0))
            values = jax.lax.dynamic_update_slice(values, v[:, None], (0, position, 0))
            scores = jnp.einsum("hd,htd->ht", q, keys) * (WIDTH // HEADS) ** -0.5
            weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
            x = x + linear(block["out"], jnp.einsum("ht,htd->hd", weights, values).reshape(1, WIDTH))
            x = x + linear(block["down"], jax.nn.gelu(linear(block["up"], norm(x, block["after"])), approximate=False))
            made.append([keys, values])
        return made, linear(head, x).argmax(-1)

    jitted = jax.jit(token_at, donate_argnums=0)
    positions = itertools.cycle(range(CACHE))

    def run() -> None:
        nonlocal caches
        token = jnp.zeros(1, dtype=jnp.int32)
        for _ in range(8):
            caches, token = jitted(caches, token, next(positions))
            int(token[0])

    return run, 8
