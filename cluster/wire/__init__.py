"""Kafka's wire protocol: frames, headers, our own Fetch and Produce codecs, kio for everything else."""
