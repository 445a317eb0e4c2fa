"""Examples run on the same Spark as all other tests, against a broker of their own."""

from tests.spark.conftest import spark
from tests.spark.queue_mode.conftest import queues

__all__ = ["queues", "spark"]
