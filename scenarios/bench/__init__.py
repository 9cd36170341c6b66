"""The measurements of `highwater bench`.
Rooms: model/ (traces of any length whose outcome is known).

May import: scenarios.bench.model, scenarios.language, scenarios.language.parse, scenarios.process,
scenarios.run, scenarios.search, scenarios.terminal.
Open first: wire.py.
"""
