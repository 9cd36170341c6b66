"""Creates the page of a run: one HTML file with the run's data, which TypeScript displays.

The TypeScript sources are in page/. `make page` builds player.html from them, which is committed.

May import: scenarios.explain, scenarios.language, scenarios.language.verbs, scenarios.language.write,
scenarios.observe.
Open first: tape.py.
"""
