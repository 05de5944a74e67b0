"""Sessions of engines for tests: one of Spark, one cluster of Dask and one PostgreSQL
for each test process.

`conftest.py` marks the tests that use one, and keeps those of each in one process.
"""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SPARK_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def spark_session(master, **settings):
    """A session of its own kind; whatever session there was is stopped first."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    builder = SparkSession.builder.master(master).appName("propcal")
    for key, value in {**SPARK_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark():
    """Spark in this process: local[2]."""
    session = spark_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def dask_client():
    """A Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _newest_postgres():
    """The folder of PostgreSQL's programs, where Debian puts them or on the path."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])
    )
    elsewhere = shutil.which("initdb")
    return found[-1].parent if found else Path(elsewhere).parent if elsewhere else None


@pytest.fixture(scope="session")
def postgres():
    """A connection to a PostgreSQL of our own, on a socket in a folder that goes with
    it.
    """
    psycopg = pytest.importorskip("psycopg")
    programs = _newest_postgres()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    as_user = []
    with tempfile.TemporaryDirectory(prefix="propcal-pg-") as folder:
        if os.getuid() == 0:  # which PostgreSQL refuses to run as
            try:
                owner = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip(
                    "PostgreSQL does not run as root, and there is no user postgres"
                )
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            as_user = ["runuser", "-u", "postgres", "--"]

        def run(program, *arguments):
            command = [*as_user, programs / program, *arguments]
            subprocess.run(
                command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60
            )

        data = f"{folder}/data"
        run(
            "initdb",
            "-D",
            data,
            "-U",
            "propcal",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        )
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c jit=off"
        run("pg_ctl", "-D", data, "-l", f"{folder}/log", "-o", options, "-w", "start")
        try:
            # without prepared plans, which do not outlast that a table is made again
            # with other types
            settings = {"autocommit": True, "prepare_threshold": None}
            with psycopg.connect(
                host=folder, user="propcal", dbname="postgres", **settings
            ) as connection:
                yield connection
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
