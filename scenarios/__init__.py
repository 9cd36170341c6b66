"""From a scenario's file to its verdict, and the `highwater` command; library/ holds the bundled scenarios.
Rooms from the bottom up: process/, terminal/, language/, observe/, check/, run/, serve/, explain/, search/,
bench/, lab/, cli/.

May import: no other room of this package.
Open first: language/spec.py.
"""
