"""The sweep of PyTorch's own operator database over device ``tpu``: each operator, in each dtype, against the CPU.

``python -m tests.conformance --help`` runs it; ``docs/conformance.md`` is what it wrote last.
"""
