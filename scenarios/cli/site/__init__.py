"""`highwater site`: the command, and the modules that turn scenarios, lessons and documents into a static site.

May import: scenarios.cli, scenarios.explain, scenarios.lab, scenarios.language, scenarios.language.parse,
scenarios.language.write, scenarios.process, scenarios.run, scenarios.terminal, scenarios.view.
Open first: build.py.
"""
