"""What a Spark session keeps away from the terminal."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_py4j_does_not_log_a_connection_that_broke(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """As Ctrl-C makes it: the JVM is gone when Py4J gives up the connection of the call that was under way."""
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    connection = client._create_new_connection()
    connection.socket.shutdown(socket.SHUT_RDWR)
    connection.shutdown_socket(1, 2)
    connection.close()
    assert caplog.records == []
