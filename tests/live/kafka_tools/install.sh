#!/usr/bin/env bash
# install.sh DIR: Kafka's tools as jars in DIR, and Kafka Streams in DIR/streams, by Maven. Tests find them where
# KAFKA_TOOLS_LIB says.
set -euo pipefail
here=$(dirname "$0")
directory=$(realpath -m "$1")
mvn --batch-mode --quiet --file "$here/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$directory"
mvn --batch-mode --quiet --file "$here/streams.xml" dependency:copy-dependencies "-DoutputDirectory=$directory/streams"
