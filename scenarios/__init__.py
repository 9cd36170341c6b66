"""From a scenario's file to its verdict, and the `highwater` command; library/ holds the bundled scenarios.
Rooms from the bottom up: process/, terminal/, language/, observe/, check/, run/, serve/, explain/, search/,
bench/, lab/, cli/.

May import: no other room of this package.
Open first: language/spec.py.
"""

import os

if os.environ.get("HIGHWATER_PURE", "0") not in ("", "0"):
    # Only then: a program of Highwater first sees to it that `replica` is its own, and not a module of the user's.
    from replica import plain_python as plain_python
