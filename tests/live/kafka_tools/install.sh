#!/usr/bin/env bash
# install.sh DIR: Kafka's tools as jars in DIR, by Maven. Tests find them where KAFKA_TOOLS_LIB says.
set -euo pipefail
mvn --batch-mode --quiet --file "$(dirname "$0")/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$(realpath -m "$1")"
