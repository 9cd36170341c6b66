"""The page of a run: one HTML file, written by Python from the run's trace and displayed by TypeScript.

The sources of the page are in page/; `make page` builds player.html from them, which is committed.

May import: scenarios.explain, scenarios.language, scenarios.language.verbs, scenarios.language.write,
scenarios.observe.
Open first: tape.py.
"""
