"""From a scenario's file to its verdict, and the `highwater` command; library/ holds the bundled scenarios.

Packages from the bottom up: process/, terminal/, language/, observe/, check/, run/, serve/, explain/, search/,
bench/, lab/, cli/.

May import: no sibling package.
Open first: language/spec.py.
"""
