"""The models in JAX: pure functions of their parameters, to be jitted whole."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

HEADS, WIDTH, LAYERS, VOCABULARY, CONTEXT, BATCH = 4, 128, 4, 96, 128, 16
RATE, DECAY, BETA1, BETA2 = 3e-4, 0.1, 0.9, 0.999
draw = np.random.default_rng(0)

Layer = dict[str, jax.Array]
# A step of training: state and batch in; new state and loss out; and what it starts from.
Step = tuple[Callable[..., tuple[Any, jax.Array]], Any, tuple[jax.Array, ...]]


def normal(*shape: int, scale: float = 0.02) -> jax.Array:
    return jnp.asarray(draw.standard_normal(shape, dtype=np.float32) * np.float32(scale))


def linear(layer: Layer, x: jax.Array) -> jax.Array:
    """As a product of two matrices: on a CPU the gradients of three dimensions are much slower."""
    flat = x.reshape(-1, x.shape[-1]) @ layer["w"]
    return flat.reshape(*x.shape[:-1], -1) + layer["b"]


def make_linear(inputs: int, outputs: int, scale: float = 0.02) -> Layer:
    return {"w": normal(inputs, outputs, scale=scale), "b": jnp.zeros(outputs)}


def layer_norm(layer: Layer, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * layer["w"] + layer["b"]


def make_norm() -> Layer:
    return {"w": jnp.ones(WIDTH), "b": jnp.zeros(WIDTH)}


def cross_entropy(logits: jax.Array, target: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[..., None], -1).mean()


def mlp_train() -> Step:
    state = [make_linear(*size, scale=size[0] ** -0.5) for size in ((784, 512), (512, 512), (512, 10))]
    batch = normal(64, 784, scale=1), jnp.asarray(draw.integers(0, 10, 64), dtype=jnp.int32)

    def loss_of(params, x, target):
        for layer in params[:-1]:
            x = jax.nn.relu(linear(layer, x))
        return cross_entropy(linear(params[-1], x), target)

    def train(params, x, target):
        loss, grads = jax.value_and_grad(loss_of)(params, x, target)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss

    return train, state, batch


def gpt_params(context: int) -> dict[str, Any]:
    sizes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    return {
        "token": normal(VOCABULARY, WIDTH),
        "position": normal(context, WIDTH),
        "blocks": [
            {name: make_linear(*size) for name, size in sizes.items()} | {"norm1": make_norm(), "norm2": make_norm()}
            for _ in range(LAYERS)
        ],
        "norm": make_norm(),
        "head": normal(WIDTH, VOCABULARY),
    }


def heads(block: dict[str, Layer], x: jax.Array) -> jax.Array:
    batch, length, _ = x.shape
    split = linear(block["qkv"], layer_norm(block["norm1"], x)).reshape(batch, length, 3, HEADS, -1)
    return split.transpose(2, 0, 3, 1, 4)


def attend(block: dict[str, Layer], q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array) -> jax.Array:
    scores = q @ k.swapaxes(-1, -2) * (WIDTH // HEADS) ** -0.5
    mixed = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v
    return linear(block["out"], mixed.transpose(0, 2, 1, 3).reshape(mixed.shape[0], -1, WIDTH))


def feed_forward(block: dict[str, Layer], x: jax.Array) -> jax.Array:
    x = linear(block["up"], layer_norm(block["norm2"], x))
    # PyTorch's formula: jax.nn.gelu goes through erfc, which takes a tenth longer of the whole step.
    return linear(block["down"], 0.5 * x * (1 + jax.lax.erf(x * 0.5**0.5)))


def logits_of(params: dict[str, Any], x: jax.Array) -> jax.Array:
    return linear({"w": params["head"], "b": jnp.zeros(())}, layer_norm(params["norm"], x))


def gpt_train() -> Step:
    """With AdamW, gradients clipped at 1, as cases_torch.py has it."""
    tokens = jnp.asarray(draw.integers(0, VOCABULARY, (BATCH, CONTEXT + 1)), dtype=jnp.int32)
    params = gpt_params(CONTEXT)

    def loss_of(params, inputs, targets):
        causal = jnp.tril(jnp.ones((CONTEXT, CONTEXT), bool))
        x = params["token"][inputs] + params["position"]
        for block in params["blocks"]:
            x = x + attend(block, *heads(block, x), causal)
            x = x + feed_forward(block, x)
        return cross_entropy(logits_of(params, x), targets)

    def train(state, inputs, targets):
        params, first, second, count = state
        loss, grads = jax.value_and_grad(loss_of)(params, inputs, targets)
        length = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        clip = jnp.minimum(1.0, 1.0 / (length + 1e-6))
        grads = jax.tree.map(lambda g: g * clip, grads)
        count = count + 1
        first = jax.tree.map(lambda m, g: m + (1 - BETA1) * (g - m), first, grads)
        second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, grads)

        def update(p, m, v):
            root = jnp.sqrt(v / (1 - BETA2**count)) + 1e-8
            return p * (1 - RATE * DECAY) - RATE / (1 - BETA1**count) * m / root

        return (jax.tree.map(update, params, first, second), first, second, count), loss

    zeros = [jax.tree.map(jnp.zeros_like, params) for _ in range(2)]
    return train, (params, *zeros, jnp.zeros(())), (tokens[:, :-1], tokens[:, 1:])


def gpt_caches(positions: int) -> list[tuple[jax.Array, jax.Array]]:
    shape = (1, HEADS, positions, WIDTH // HEADS)
    return [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(LAYERS)]


def gpt_token(caches, params, token, position):
    """A greedy token, and the caches with that position written."""
    x = params["token"][token] + params["position"][position]
    seen = jnp.arange(caches[0][0].shape[2]) <= position
    made = []
    for block, (keys, values) in zip(params["blocks"], caches, strict=True):
        q, k, v = heads(block, x)
        keys = jax.lax.dynamic_update_slice(keys, k, (0, 0, position, 0))
        values = jax.lax.dynamic_update_slice(values, v, (0, 0, position, 0))
        x = x + attend(block, q, keys, values, seen)
        x = x + feed_forward(block, x)
        made.append((keys, values))
    return made, logits_of(params, x).argmax(-1)
