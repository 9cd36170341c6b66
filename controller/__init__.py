"""The controller: metadata log and image, registration and sessions, elections, AlterPartition, placement."""
