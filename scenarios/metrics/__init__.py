"""Derive Kafka's own metrics of a cluster from its trace, and metrics that no broker exports.

`gauges.py` turns events into Kafka's gauges and counters; `dashboard.py` finds the alerts that a run would have raised;
`live.py` adds metrics of a running cluster; `exposition.py` serves all of them to Prometheus.

May import: scenarios.observe, scenarios.observe.columns.
Open first: gauges.py.
"""
