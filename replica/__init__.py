"""Logs and replication: record batches, segments, leader and follower state, and the words everybody shares."""
