"""``python -m torch_tpu report``: what a script compiled and launched, as one page."""
