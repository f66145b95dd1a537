"""The same figures on Apache Spark: from a DataFrame of events to a DataFrame of figures. Needs
``fadecount[spark]``."""

try:
    from fadecount.spark.ledger import Stream
    from fadecount.spark.pipeline import figures, parquet, postgresql, publish
except ModuleNotFoundError as error:
    from fadecount.errors import missing_extra

    raise missing_extra("fadecount.spark", error.name or "pyspark", "spark") from error

__all__ = ["Stream", "figures", "parquet", "postgresql", "publish"]
