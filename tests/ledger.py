"""Tests that are known to fail, each with its reason. The ledger is strict: one that passes fails the run."""

KNOWN_FAILURES: dict[str, str] = {}

# Those of one plugin only, by what its path holds.
KNOWN_FAILURES_OF: dict[str, dict[str, str]] = {
    "xla_cpu_pjrt": {
        "tests/test_modes.py::test_float64_rounds_after_each_operator[defer]": (
            "its older compiler drops the barrier before it fuses a product and a sum into one rounding"
        ),
        "tests/ops/test_pointwise.py::test_powers_of_integers": (
            "its older compiler makes -1 to an odd negative power 0 instead of -1"
        ),
    },
}

# What ends the process on one plugin, and so is not run there.
ABORTS_OF: dict[str, dict[str, str]] = {
    "xla_cpu_pjrt": {
        f"tests/ops/test_linalg.py::test_gradients_of_any_strides[{name}-torch.float64]": (
            "its older compiler ends the process over the layout of a product of two 2x2 matrices (dot_op_emitter.cc)"
        )
        for name in ("solve", "inv")
    },
}

# What we answer with "not implemented", since PyTorch's CPU kernel does: test_errors.py holds that both refuse it.
REFUSED_AS_ON_CPU: dict[str, str] = {
    "eigenvalues of half": "PyTorch has none of narrow floats",
    "a histogram of integers": "PyTorch has none of integers",
    "bitwise on floats": "bits are those of integers",
    "a shift of floats": "bits are those of integers",
    "a greatest common divisor of floats": "divisors are those of integers",
    "a mask drawn by integers": "a probability is a float",
    "counts drawn by integers": "a rate is a float",
    "a gamma distribution of integers": "its parameters are floats",
    "a Dirichlet distribution of integers": "its parameters are floats",
    "a normal distribution of integer deviation": "it draws in the dtype of what is given, which are floats",
    "a normal distribution of integer mean": "it draws in the dtype of what is given, which are floats",
}

# Why a test may be skipped: what it needs is not ours to give.
NEEDS_LIBTPU = "libtpu is not installed (pip install torchtpu[aot])"  # proprietary, so an extra
NEEDS_TWO_PLUGINS = "one plugin is installed"
NEEDS_MOUNTS = "only root may mount a file system to fill it, or hide a file from a process"
NEEDS_BROWSER = "no Chromium is installed (apt-get install chromium)"  # large, and only these tests look at a page
