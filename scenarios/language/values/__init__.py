"""Readers and writers of single values, conditions and selectors of a scenario, and their descriptions as text.

May import: scenarios.language.

Open first: reading.py.
"""
