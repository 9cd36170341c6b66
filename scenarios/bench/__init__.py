"""The measurements of `highwater bench`; what developers measure besides is in tests/bench/.

May import: scenarios.language, scenarios.language.parse, scenarios.process, scenarios.run.
Open first: steady.py.
"""
