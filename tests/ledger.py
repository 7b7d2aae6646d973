"""Tests that are known to fail, each with its reason. The ledger is strict: one that passes fails the run."""

KNOWN_FAILURES: dict[str, str] = {}

# Those of one plugin only, by what its path holds.
KNOWN_FAILURES_OF: dict[str, dict[str, str]] = {
    "xla_cpu_pjrt": {
        "tests/test_modes.py::test_float64_rounds_after_each_operator[defer]": (
            "its older compiler drops the barrier before it fuses a product and a sum into one rounding"
        ),
    },
}

# What we answer with "not implemented", since PyTorch's CPU kernel does: test_errors.py holds that both refuse it.
REFUSED_AS_ON_CPU: dict[str, str] = {
    "eigenvalues of half": "PyTorch has none of narrow floats",
    "a histogram of integers": "PyTorch has none of integers",
    "bitwise on floats": "bits are those of integers",
    "a shift of floats": "bits are those of integers",
    "a greatest common divisor of floats": "divisors are those of integers",
}
