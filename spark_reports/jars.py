"""Spark's jars: which of them the JVM searches first, and which not at all.

It looks for each class in one jar after the other, in the order of a folder that holds 280: of a short report's start
this took two fifths.
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
"""Those of which a report loads most classes, in the order of their number."""

LEFT_OUT = ("spark-mllib",)
"""With it every session begins with functions for vectors, and these with Scala's own reflection: a thousand classes,
and a tenth of a short report."""

LAUNCHER = "spark-launcher"
"""All that Spark's scripts need to find out how the JVM is called. They search all jars for it."""


def spark_home() -> Path:
    """As PySpark looks for it, which would have to be imported for that. raises: FileNotFoundError"""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise FileNotFoundError("PySpark is not installed")
    return Path(pyspark.origin).parent


def jars() -> list[Path]:
    """raises: FileNotFoundError"""
    return sorted((spark_home() / "jars").glob("*.jar"))


def first_on_class_path() -> str:
    """For spark.driver.extraClassPath. Another release of Spark may lack some of them. raises: FileNotFoundError"""
    found = {name_of(jar): jar for jar in jars()}
    return os.pathsep.join(str(found[name]) for name in FIRST if name in found)


class Jars(NamedTuple):
    """What `folder/*` on a class path stands for. `launcher`: for Spark's scripts; empty if this release has none."""

    folder: Path
    all_needed: str
    launcher: str


def jars_needed() -> Jars:
    """raises: FileNotFoundError"""
    needed = [jar for jar in jars() if name_of(jar) not in LEFT_OUT]
    launcher = [jar for jar in needed if name_of(jar) == LAUNCHER]
    return Jars(spark_home() / "jars", *(os.pathsep.join(map(str, some)) for some in (needed, launcher)))


def name_of(jar: Path) -> str:
    """`spark-sql` of spark-sql_2.13-4.1.1.jar, where 2.13 is Scala's release; `py4j` of py4j-0.10.9.9.jar."""
    parts = jar.stem.partition("_")[0].split("-")
    return "-".join(part for part in parts if not part[:1].isdigit())
