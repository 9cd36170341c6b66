"""Plays a scenario interactively: its viewer adds faults at any moment of the run and compares the outcomes.

May import: scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.verbs,
scenarios.language.write, scenarios.observe, scenarios.run, scenarios.serve, scenarios.view.
Open first: playing.py.
"""
