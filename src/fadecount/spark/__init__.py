"""The same figures on Apache Spark: from a DataFrame of events to a DataFrame of figures. Needs
``fadecount[spark]``."""

try:
    import pandas as _pandas
    import pyspark as _pyspark
except ModuleNotFoundError as error:
    from fadecount.errors import missing_extra

    raise missing_extra("fadecount.spark", error.name or "pyspark", "spark") from error

from fadecount.spark.sinks import parquet, postgresql
from fadecount.spark.stream import Stream
from fadecount.spark.streaming import publish
from fadecount.spark.table import figures

__all__ = ["Stream", "figures", "parquet", "postgresql", "publish"]

del _pandas, _pyspark
