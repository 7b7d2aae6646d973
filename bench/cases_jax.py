"""The same cases in JAX: each a jitted function, state donated."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

Case = tuple[Callable[[], object], int]
HEADS, WIDTH, LAYERS, CACHE, VOCABULARY = 4, 128, 4, 256, 96
draw = np.random.default_rng(0)


def setup() -> tuple[Callable[[str], Case | None], dict[str, str]]:
    import jaxlib

    table = {"chain": chain, "add_read": add_read, "record": record, "mlp": mlp, "mlp_async": mlp_async}
    table["decode"] = decode
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


def mlp_step() -> Callable[[], jax.Array]:
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

    jitted = jax.jit(train, donate_argnums=0)

    def step():
        nonlocal state
        state, loss = jitted(state, x, target)
        return loss

    return step


def mlp() -> Case:
    step = mlp_step()

    def run() -> None:
        for _ in range(20):
            float(step())

    return run, 20


def mlp_async() -> Case:
    step = mlp_step()

    def run() -> None:
        for _ in range(20):
            loss = step()
        float(loss)

    return run, 20


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
