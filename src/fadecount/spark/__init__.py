"""The same counters on Apache Spark: from a DataFrame of events to a DataFrame of releases. Needs
``fadecount[spark]``."""

try:
    import pandas as _pandas
    import pyspark as _pyspark
except ModuleNotFoundError as error:
    from fadecount.errors import missing_extra

    raise missing_extra("fadecount.spark", error.name or "pyspark", "spark") from error

from fadecount.spark.explain import explain
from fadecount.spark.release import release
from fadecount.spark.sinks import to_parquet, to_postgresql
from fadecount.spark.windows import windows

__all__ = ["explain", "release", "to_parquet", "to_postgresql", "windows"]

del _pandas, _pyspark
