"""Compiles the op table's rows and the test models' programs for TPUs: ``python -m tools.tpu_check --help``."""
