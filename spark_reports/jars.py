"""Choose the order of Spark's jars on the JVM's class path, and jars to omit.

The JVM searches the jars in order for each class. With Spark's folder of 280 jars this took two fifths of the time to
start a short report.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import NamedTuple

FIRST = (
    "spark-catalyst", "spark-core", "scala-library", "spark-sql-api", "spark-sql", "scala-reflect", "log4j-core",
    "jackson-databind", "hadoop-client-api", "janino", "spark-config", "arrow-vector", "spark-network-common",
    "hadoop-client-runtime", "netty-common", "netty-transport", "netty-buffer", "antlr4-runtime", "jackson-core",
    "jackson-module-scala", "spark-common-utils", "log4j-api", "py4j",
)  # fmt: skip
"""The jars that the JVM searches first: those from which a report loads most classes, in descending order."""

LEFT_OUT = ("spark-mllib",)
"""Jars that are omitted.

With spark-mllib, every session registers vector functions by Scala's reflection. This loads a thousand classes, a tenth
of the time of a short report.
"""

LAUNCHER = "spark-launcher"
"""The only jar that Spark's scripts need to build the JVM's command line; otherwise they search all jars."""


def spark_home() -> Path:
    """Return Spark's folder as PySpark finds it, without importing PySpark. Raises FileNotFoundError."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise FileNotFoundError("PySpark is not installed: pip install pyspark")
    return Path(pyspark.origin).parent


def jars() -> list[Path]:
    """Return Spark's jars, sorted by name. Raises FileNotFoundError."""
    return sorted((spark_home() / "jars").glob("*.jar"))


def first_on_class_path() -> str:
    """Return the paths of the jars FIRST for spark.driver.extraClassPath. Raises FileNotFoundError."""
    found = {name_of(jar): jar for jar in jars()}
    return os.pathsep.join(str(found[name]) for name in FIRST if name in found)


class Jars(NamedTuple):
    """Class paths that replace `folder/*`.

    Attributes:
        all_needed: class path for the JVM.
        launcher: class path for Spark's scripts, empty if Spark has no such jar.
    """

    folder: Path
    all_needed: str
    launcher: str


def jars_needed() -> Jars:
    """Return the class paths of the jars that a report needs. Raises FileNotFoundError."""
    needed = [jar for jar in jars() if name_of(jar) not in LEFT_OUT]
    launcher = [jar for jar in needed if name_of(jar) == LAUNCHER]
    return Jars(spark_home() / "jars", *(os.pathsep.join(map(str, some)) for some in (needed, launcher)))


def name_of(jar: Path) -> str:
    """Return a jar's name without versions: `spark-sql` for spark-sql_2.13-4.1.1.jar (2.13 is Scala's version)."""
    parts = jar.stem.partition("_")[0].split("-")
    return "-".join(part for part in parts if not part[:1].isdigit())
