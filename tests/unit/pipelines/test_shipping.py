"""What is sent to workers must be all that they lack."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from mainstem.pipelines.session.code_shipping import UNPACKED, code_archive, shipping_settings

WORKER_HAS = ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs", "pandas", "dateutil", "six.py", "pytz", "tzdata")
READS = """
import importlib.util, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import mainstem, mainstem.pipelines.source.source, mainstem.pipelines.source.stream_source, mainstem.pipelines.sink.sink
import mainstem.pipelines.value_formats.avro_format, mainstem.pipelines.value_formats.protobuf_format
print(mainstem.__file__, importlib.util.find_spec("uvloop"))
"""


def test_a_bare_python_with_spark_reads_with_what_was_shipped(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive()) as archive:
        archive.extractall(tmp_path / UNPACKED)
    ours, theirs = Path(sysconfig.get_paths()["purelib"]), tmp_path / "packages"
    theirs.mkdir()
    for name in WORKER_HAS:
        if (ours / name).exists():
            (theirs / name).symlink_to(ours / name)
    python = Path(sys.base_prefix) / "bin" / "python3"
    said = subprocess.run(
        [str(python), "-I", "-c", READS, str(tmp_path / UNPACKED), str(theirs)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == [str(tmp_path / UNPACKED / "mainstem" / "__init__.py"), "None"]


def test_settings_name_the_archive() -> None:
    settings = shipping_settings()
    assert settings["spark.archives"] == f"{code_archive()}#{UNPACKED}"
    assert settings["spark.executorEnv.PYTHONPATH"] == f"./{UNPACKED}"
