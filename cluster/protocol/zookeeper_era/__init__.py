"""What a ZooKeeper-era controller asks of brokers (API keys 4 to 7). kio lacks them, so they are written as kio
would: one version of each, the first that has everything we need. Source: LeaderAndIsrRequest.json,
StopReplicaRequest.json, UpdateMetadataRequest.json, ControlledShutdownRequest.json and their responses, Kafka
3.9. (No `from __future__ import annotations` here: `entities` reads the types of the fields.)

May import: no other room of this package.
Open first: request.py.
"""
