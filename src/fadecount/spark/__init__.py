"""The same counters on Apache Spark: from a DataFrame of events to a DataFrame of releases. Needs ``fadecount[spark]``."""

from fadecount.spark.explain import explain
from fadecount.spark.release import release

__all__ = ["explain", "release"]
