"""Tests that are known to fail, each with its reason. The ledger is strict: one that passes fails the run."""

SHAPE_WORDS = "PyTorch's Python meta functions, which `import torch` puts over the C++ ones, have other words"
LINALG = "the determinant, LU and pseudo-inverse are not lowered natively in full"

KNOWN_FAILURES: dict[str, str] = {
    "tests/ops/test_convolution.py::test_shapes_that_do_not_fit": SHAPE_WORDS,
    "tests/ops/test_linalg.py::test_lu[(2, 3, 5)]": LINALG,
    "tests/ops/test_linalg.py::test_lu[(4, 4)]": LINALG,
    "tests/ops/test_linalg.py::test_lu[(5, 3)]": LINALG,
    "tests/ops/test_linalg.py::test_solves[det-torch.float32]": LINALG,
    "tests/ops/test_linalg.py::test_solves[det-torch.float64]": LINALG,
    "tests/ops/test_linalg.py::test_solves[slogdet-torch.float32]": LINALG,
    "tests/ops/test_linalg.py::test_solves[slogdet-torch.float64]": LINALG,
    "tests/ops/test_linalg.py::test_what_rests_on_svd": LINALG,
    "tests/ops/test_matmul.py::test_shapes_that_do_not_fit": SHAPE_WORDS,
}
