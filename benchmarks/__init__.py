"""How fast fadecount is, beside a reference and beside other libraries, measured in one run:
``python -m benchmarks``."""
