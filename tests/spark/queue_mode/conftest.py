"""One broker for all tests here; Spark is that of all tests."""

from tests.support.spark_fixtures import queues

__all__ = ["queues"]
