"""Short forms of what an admin client asks for, and of what it is answered."""

from cluster.protocol.versions import CREATE_TOPICS, METADATA
from replica.errors import ErrorCode


def create(admin, *topics, version=7, validate_only=False):
    answer = admin.ask(CREATE_TOPICS, version, topics=topics, timeout=1000, validate_only=validate_only)
    return {str(topic.name): topic for topic in answer.topics}


def topic(name, partitions=1, replicas=1, **more):
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def error(entry):
    return ErrorCode(int(entry.error_code))


def topics_of(admin, **options):
    return {topic.name: topic for topic in admin.ask(METADATA, 12, topics=None, **options).topics}
