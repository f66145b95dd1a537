"""The same counters on Apache Spark: from a DataFrame of events to a DataFrame of releases. Needs ``fadecount[spark]``."""

try:
    import pandas as _pandas
    import pyspark as _pyspark
except ModuleNotFoundError as error:
    raise ImportError(f"fadecount.spark needs {error.name}; install it with: pip install 'fadecount[spark]'") from error

from fadecount.spark.explain import explain
from fadecount.spark.release import release
from fadecount.spark.sinks import to_parquet, to_postgresql
from fadecount.spark.windows import windows

__all__ = ["explain", "release", "to_parquet", "to_postgresql", "windows"]

del _pandas, _pyspark
