"""The live world: the wall clock, and TCP on this machine's loopback or wherever it is asked to listen."""
