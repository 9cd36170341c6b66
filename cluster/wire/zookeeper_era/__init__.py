"""What a ZooKeeper-era controller asks of brokers (API keys 4 to 7). kio lacks them, so they are written as kio would.

One version of each, the first that has everything we need; eras before it simply leave the newer fields at their
defaults. Source: LeaderAndIsrRequest.json, StopReplicaRequest.json, UpdateMetadataRequest.json,
ControlledShutdownRequest.json and their responses, Kafka 3.9. (No `from __future__ import annotations` in these
modules: `entities` reads the types of the fields.)
"""
