"""Performs the measurements of `highwater bench`. Measurements for developers are in tests/bench/.

May import: scenarios.language, scenarios.language.parse, scenarios.process, scenarios.run.
Open first: steady.py.
"""
