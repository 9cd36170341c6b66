"""A shop that runs on a cluster of machines: a package of the user's that is called as one of Highwater's is."""
