"""`mainstem sql --remote` on a real Spark Connect server, started from the wheel: `make test-connect`."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from tests.spark.sql.everything import PATIENCE_S, Everything, command
from tests.support.serving.ports import lasting_port


def wait_listening(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)  # nobody tells when it listens
    raise AssertionError(log.read_text()[-3_000:])


def test_on_a_spark_connect_server(orders: Everything, tmp_path: Path) -> None:
    port = lasting_port()
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = [
        f"spark.connect.grpc.binding.port={port}",
        "spark.ui.enabled=false",
        "spark.connect.grpc.binding.address=127.0.0.1",
    ]
    log = tmp_path / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [str(spark_class), "--master", "local[1]", *(part for one in settings for part in ("--conf", one)),
             "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"],
            cwd=tmp_path, stdout=out, stderr=out,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip
    try:
        wait_listening(server, port, log)
        where = ("--remote", f"sc://127.0.0.1:{port}", "--format", "csv")
        query = (
            "SELECT value.country AS c, count(*) AS n, min(timestamp) > TIMESTAMP '2020-01-01' AS recent FROM orders GROUP BY 1 "
            "ORDER BY 1; SELECT count(*) AS t FROM mainstem.topics; SELECT TIMESTAMP '2030-01-31 12:00:00' AS at; SELECT * FROM x"
        )
        done = subprocess.run(
            command(orders, *where, query),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            cwd=tmp_path,
        )
        assert done.stdout == "c,n,recent\nDE,5,true\nNL,5,true\nt\n1\nat\n2030-01-31T12:00:00.000Z\n", done.stderr
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert done.stderr.startswith("error: There is no topic or table 'x'")
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
