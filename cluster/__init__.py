"""Brokers and clients: wire protocol, request handling, purgatory, fetchers, the two shells and the fabric."""
