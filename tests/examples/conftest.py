"""Examples run on the same Spark as all other tests, against a broker of their own."""

from tests.support.spark_fixtures import queues, spark

__all__ = ["queues", "spark"]
