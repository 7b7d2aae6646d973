"""Random numbers: the bits are Philox's, the distributions are what they should be, the modes agree."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import torch_tpu
from tests.oracle import MODES

N = 50_000
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def empty(dtype: torch.dtype = torch.float32, n: int = N) -> torch.Tensor:
    return torch.empty(n, dtype=dtype, device="tpu")


def host(x: torch.Tensor) -> np.ndarray[Any, Any]:
    return x.detach().cpu().double().numpy().ravel()


def assert_follows(x: torch.Tensor, cdf: Callable[[Any], Any], rounding: float = 0.0) -> None:
    """Kolmogorov-Smirnov: the greatest distance between the distribution functions is what chance allows (p = 1e-4).

    ``rounding`` is added for values on a coarse grid.
    """
    values = np.sort(host(x))
    assert np.isfinite(values).all()
    n = len(values)
    expected = cdf(values)
    distance = max(np.max(np.arange(1, n + 1) / n - expected), np.max(expected - np.arange(n) / n))
    assert distance < 2.2 / math.sqrt(n) + rounding, distance


def assert_frequencies(x: torch.Tensor, probabilities: list[float]) -> None:
    """Chi squared, far out."""
    p = np.asarray(probabilities)
    counts = np.bincount(host(x).astype(int), minlength=len(p))
    assert counts.shape == p.shape
    assert (counts[p == 0] == 0).all()
    n, some = counts.sum(), p > 0
    chi2 = (((counts - n * p) ** 2)[some] / (n * p)[some]).sum()
    assert chi2 < some.sum() + 5 * math.sqrt(2 * some.sum()) + 5, (counts / n, p)


def normal_cdf(mean: float = 0.0, std: float = 1.0) -> Callable[[Any], Any]:
    return lambda v: 0.5 * (1 + torch.erf(torch.from_numpy((v - mean) / (std * math.sqrt(2)))).numpy())


def philox(seed: int, counters: range) -> list[list[int]]:
    """The reference, in Python's integers."""
    out = []
    for counter in counters:
        c = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
        k = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        out.append(c)
    return out


def test_bits() -> None:
    assert philox(0, range(1))[0] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # the authors' known answer
    generator = torch.Generator("tpu").manual_seed(0x123456789ABCDEF0)
    for offset in (0, 2**32 - 3):
        generator.set_offset(offset) if hasattr(generator, "set_offset") else None
        start = generator.get_offset() if hasattr(generator, "get_offset") else 0
        x = torch.empty(2, 4, dtype=torch.int64, device="tpu").random_(-(2**63), None, generator=generator)
        words = philox(0x123456789ABCDEF0, range(start, start + 8))
        got = [v + 2**63 for v in x.cpu().flatten().tolist()]
        assert got == [w[0] << 32 | w[1] for w in words]


@pytest.mark.parametrize("shape", [(8, 3), (2, 2, 5), (3, 4, 1), (1, 0, 4), (2, 6), (3, 5), (8,), ()], ids=str)
def test_bits_of_masks(shape: tuple[int, ...]) -> None:
    generator = torch.Generator("tpu").manual_seed(7)
    mask = torch.empty(shape, device="tpu").bernoulli_(0.3, generator=generator).cpu().flatten()
    n, words = mask.numel(), philox(7, range(mask.numel()))
    shared = math.prod(shape[:-1]) % 4 == 0  # a counter serves four elements
    bits = [words[i % (n // 4)][i // (n // 4)] if shared else words[i][0] for i in range(n)]
    least = math.ceil(float(np.float32(0.3)) * 2**24)
    assert mask.bool().tolist() == [word >> 8 < least for word in bits]


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_masks(p: float) -> None:
    assert (host(empty().bernoulli_(p)) == p).all()
    assert (host(torch.nn.functional.dropout(torch.ones(N, device="tpu"), p)) == 1 - p).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype: torch.dtype) -> None:
    digits = {torch.float16: 11, torch.bfloat16: 8}.get(dtype, 24)
    x = torch.rand(N, dtype=dtype, device="tpu")
    assert_follows(x, lambda v: np.clip(v + 2.0**-digits, 0, 1), 2.0**-digits)
    assert host(x).min() >= 0 and host(x).max() < 1
    if dtype == torch.float32:
        assert len(np.unique(host(x) * 2**24 % 2)) == 2  # the last of 24 digits is there
    if dtype == torch.float64:
        assert (host(x) * 2**30 % 1 != 0).any()
    y = empty(dtype).uniform_(-3, 5)
    assert_follows(y, lambda v: (v + 3) / 8, 2.0**-digits)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(dtype: torch.dtype) -> None:
    coarse = 2.0**-7 if dtype == torch.bfloat16 else 2.0**-10 if dtype == torch.float16 else 0.0
    assert_follows(torch.randn(N, dtype=dtype, device="tpu"), normal_cdf(), coarse)
    assert_follows(empty(dtype).normal_(2.0, 3.0), normal_cdf(2, 3), coarse)


def test_normal_forms() -> None:
    mean, std = torch.linspace(-5, 5, 2, device="tpu").repeat(N // 2), torch.tensor(2.0, device="tpu")
    assert_follows((torch.normal(mean, 2.0) - mean) / 2, normal_cdf())
    assert_follows((torch.normal(mean, std.expand(N)) - mean) / 2, normal_cdf())
    assert_follows(torch.normal(1.0, std.expand(N)), normal_cdf(1, 2))
    assert_follows(torch.normal(1.0, 2.0, (N,), device="tpu"), normal_cdf(1, 2))
    z = torch.view_as_real(torch.randn(N, dtype=torch.complex64, device="tpu").cpu())
    assert_follows(z, normal_cdf(0, math.sqrt(0.5)))
    with pytest.raises(RuntimeError, match="std"):
        empty().normal_(0, -1)
    with pytest.raises(RuntimeError, match=r"std >= 0\.0, but found std -2\.5"):
        torch.normal(mean, -2.5)


def test_tails() -> None:
    x = torch.randn(1 << 22, device="tpu")
    assert torch.isfinite(x.cpu()).all()
    assert 4.8 < host(x).max() < 7
    assert host(empty(n=1 << 20).exponential_()).min() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_continuous(dtype: torch.dtype) -> None:
    assert_follows(empty(dtype).exponential_(2.0), lambda v: 1 - np.exp(-2 * v))
    assert_follows(empty(dtype).cauchy_(1.0, 2.0), lambda v: 0.5 + np.arctan((v - 1) / 2) / math.pi)
    assert_follows(empty(dtype).log_normal_(0.5, 0.3), lambda v: normal_cdf(0.5, 0.3)(np.log(v)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool])
def test_discrete(dtype: torch.dtype) -> None:
    assert_frequencies(empty(dtype).bernoulli_(0.3), [0.7, 0.3])
    assert_frequencies(empty(dtype).bernoulli_(torch.full((N,), 0.3, device="tpu")), [0.7, 0.3])
    assert_frequencies(empty(dtype).random_(0, 2), [0.5, 0.5])
    if dtype != torch.bool:
        assert_frequencies(empty(dtype).random_(2, 7), [0, 0] + [0.2] * 5)
        assert_frequencies(empty(dtype).random_(3), [1 / 3] * 3)
        tail = [0.5 * 0.5**k for k in range(6)]
        assert_frequencies(empty(dtype).geometric_(0.5).clamp(max=7) - 1, [*tail, 1 - sum(tail)])


def test_bernoulli() -> None:
    p = torch.tensor([0.0, 1.0, 0.5], device="tpu").repeat(N)
    x = host(torch.bernoulli(p)).reshape(N, 3)
    assert (x[:, 0] == 0).all() and (x[:, 1] == 1).all()
    assert abs(x[:, 2].mean() - 0.5) < 0.02
    assert_frequencies(torch.bernoulli(torch.empty(N, device="tpu"), 0.25), [0.75, 0.25])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_whole_range(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = host(empty(dtype).random_()) / info.max
    assert 0 <= x.min() < 0.01 and 0.99 < x.max() <= 1
    y = host(empty(dtype).random_(info.min, None if dtype == torch.int64 else info.max + 1))
    assert y.min() < info.min + (info.max - info.min) * 0.01
    assert y.max() > info.max - (info.max - info.min) * 0.01
    assert_follows(
        torch.from_numpy(y / 2.0**info.bits - info.min / 2.0**info.bits), lambda v: v, 2.0 ** (1 - info.bits)
    )


def test_large_ranges() -> None:
    for low, high in ((0, 2**33), (-(2**62), 2**62), (5, 2**63 - 1)):
        x = torch.randint(low, high, (N,), device="tpu")
        assert_follows(x.double().cpu() / (high - low) - low / (high - low), lambda v: v)
    assert host(empty().random_()).max() <= 2**24
    assert host(empty(torch.float64).random_()).max() > 2**52
    with pytest.raises(RuntimeError, match="to - 1"):
        empty(torch.int8).random_(0, 300)
    with pytest.raises(RuntimeError, match="less than"):
        empty().random_(3, 3)


def test_like_and_shapes() -> None:
    x = torch.empty(3, 4, device="tpu", dtype=torch.bfloat16).t()
    for like in (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 5)):
        assert (like.shape, like.dtype, like.device.type) == (x.shape, x.dtype, "tpu")
    assert torch.rand((), device="tpu").item() < 1
    assert torch.rand(0, 3, device="tpu").shape == (0, 3)
    base = torch.zeros(4, 6, device="tpu")
    base[1:3, ::2].uniform_(1, 2)
    touched = host(base).reshape(4, 6)
    assert (touched[1:3, ::2] >= 1).all() and touched.sum() == touched[1:3, ::2].sum()
    out = torch.empty(5, device="tpu")
    assert torch.rand(5, out=out, device="tpu") is out


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 300_000])
def test_randperm(n: int) -> None:
    x = torch.randperm(n, device="tpu")
    assert x.dtype == torch.int64
    assert np.array_equal(np.sort(host(x)), np.arange(n))
    if n >= 1000:
        assert abs(np.corrcoef(host(x), np.arange(n))[0, 1]) < 0.2
        assert (host(torch.randperm(n, device="tpu")) != host(x)).any()
    assert torch.randperm(5, device="tpu", dtype=torch.int32).dtype == torch.int32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_multinomial(dtype: torch.dtype) -> None:
    weights = torch.tensor([0.0, 1, 2, 0, 5, 2], dtype=dtype)
    p = (weights.double() / weights.double().sum()).tolist()
    w = weights.to("tpu")
    assert_frequencies(torch.multinomial(w, 20_000, replacement=True), p)
    assert_frequencies(torch.multinomial(w.expand(20_000, 6), 1), p)
    every = torch.multinomial(w.expand(500, 6), 4).cpu()
    assert all(sorted(row) == [1, 2, 4, 5] for row in every.tolist())
    assert_frequencies(every[:, 0], p)
    large = torch.multinomial(torch.ones(3, 3000, device="tpu"), 4000, replacement=True)
    assert_follows(large / 3000.0, lambda v: v, 1 / 3000)
    with pytest.raises(RuntimeError, match="cannot sample n_sample > prob_dist"):
        torch.multinomial(w, 7)


def test_dropout() -> None:
    x = torch.linspace(1, 2, N, device="tpu", requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = host(y) != 0
    assert abs(kept.mean() - 0.75) < 0.01
    np.testing.assert_allclose(host(y)[kept], host(x)[kept] / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), kept / 0.75, rtol=1e-6)
    assert (host(F.dropout(x, 1.0)) == 0).all()
    assert F.dropout(x, 0.5, training=False) is x or (host(F.dropout(x, 0.5, training=False)) == host(x)).all()
    z, mask = torch.native_dropout(x, 0.5, True)
    assert mask.dtype == torch.bool
    assert ((host(z) != 0) == host(mask)).all()
    assert F.dropout(x.bfloat16(), 0.5).dtype == torch.bfloat16
    before = torch.tpu.compile_stats()["ops_recorded"]
    F.dropout(x, 0.25)
    assert torch.tpu.compile_stats()["ops_recorded"] == before + 1


def test_other_dropouts() -> None:
    x = torch.ones(64, 32, 3, 3, device="tpu")
    planes = host(F.dropout2d(x, 0.5)).reshape(-1, 9)
    assert set(np.unique(planes)) == {0.0, 2.0} and (planes == planes[:, :1]).all()
    normal = torch.randn(N, device="tpu")
    for y in (F.alpha_dropout(normal, 0.2, True), F.feature_alpha_dropout(normal.reshape(-1, 2), 0.2, True)):
        assert abs(host(y).mean()) < 0.03 and abs(host(y).std() - 1) < 0.03
    half, mask = torch._fused_dropout(x, 0.5)
    assert ((host(half) == 2) == host(mask).astype(bool)).all()


def test_rrelu() -> None:
    x = torch.linspace(-1, 1, 1000, device="tpu", requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    slope = host(y) / host(x)
    assert (slope[host(x) > 0] == 1).all()
    negative = slope[host(x) < 0]
    assert 0.0999 < negative.min() < 0.11 and 0.29 < negative.max() < 0.3001
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), slope, rtol=1e-5)


@pytest.mark.parametrize("rate", [0.3, 5.0, 12.0, 200.0])
def test_poisson(rate: float) -> None:
    x = torch.poisson(torch.full((N,), rate, device="tpu"))
    low, high = max(0, int(rate - 3 * rate**0.5)), int(rate + 3 * rate**0.5) + 1
    pmf = [math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(high)]
    p = [sum(pmf[: low + 1]), *pmf[low + 1 :]]
    assert_frequencies(x.clamp(low, high) - low, [*p, 1 - sum(p)])


def test_poisson_edges() -> None:
    rates = torch.tensor([0.0, 1e7, float("nan")], device="tpu", dtype=torch.float64)
    zero, many, nan = torch.poisson(rates).tolist()
    assert zero == 0 and math.isnan(nan) and abs(many - 1e7) < 2e4


@pytest.mark.parametrize(("n", "p"), [(7, 0.3), (7, 0.8), (100, 0.4), (100, 0.6)])
def test_binomial(n: int, p: float) -> None:
    x = torch.binomial(torch.full((N,), float(n), device="tpu"), torch.full((N,), p, device="tpu"))
    pmf = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    low, high = next(k for k in range(n) if pmf[k] > 1e-4), next(k for k in range(n, 0, -1) if pmf[k] > 1e-4)
    assert_frequencies(x.clamp(low, high) - low, [sum(pmf[: low + 1]), *pmf[low + 1 : high], sum(pmf[high:])])
    edges = torch.binomial(torch.tensor([5.0, 5.0, 0.0], device="tpu"), torch.tensor([0.0, 1.0, 0.5], device="tpu"))
    assert edges.tolist() == [0, 5, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [0.3, 1.0, 7.5])
def test_gamma(shape: float, dtype: torch.dtype) -> None:
    x = torch._standard_gamma(torch.full((N,), shape, dtype=dtype, device="tpu"))
    assert_follows(x, lambda v: torch.special.gammainc(torch.tensor(shape).double(), torch.from_numpy(v)).numpy())


def test_dirichlet() -> None:
    x = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 3.0], device="tpu").expand(N, 3))
    assert_follows(x[:, 0], lambda v: 1 - (1 - v) ** 5)
    np.testing.assert_allclose(host(x).reshape(N, 3).sum(1), 1, rtol=1e-5)


def draw_all() -> list[torch.Tensor]:
    torch.manual_seed(7)
    x = torch.rand(3, 5, device="tpu")
    return [
        x,
        torch.randn(4, device="tpu", dtype=torch.float64),
        F.dropout(x, 0.5),
        torch.randperm(10, device="tpu"),
        torch.multinomial(x, 2),
        torch.randint(0, 100, (6,), device="tpu"),
    ]


def test_modes_agree() -> None:
    drawn = []
    for mode in MODES:
        with torch_tpu.eager_mode(mode):
            drawn.append([t.cpu() for t in draw_all()])
    for other in drawn[1:]:
        assert all(torch.equal(a, b) for a, b in zip(drawn[0], other, strict=True))


def test_numbers_come_at_run_time() -> None:
    x = empty(n=10).zero_()
    for f in ("uniform_", "normal_"):
        getattr(x, f)(0.1, 0.2)
    x.bernoulli_(0.3)
    F.dropout(x, 0.3)
    before = torch.tpu.compile_stats()["compiles"]
    x.uniform_(0.2, 0.4), x.normal_(0.7, 0.9), x.bernoulli_(0.6), F.dropout(x, 0.7)
    assert torch.tpu.compile_stats()["compiles"] == before
