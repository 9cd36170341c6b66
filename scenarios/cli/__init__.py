"""The `highwater` command: one module for each subcommand, imported when it is called; and its screens.
Rooms of commands with several modules: agree/, kafka/, read/, searching/, sweep/, watch/.

May import: scenarios.agree, scenarios.bench, scenarios.check, scenarios.explain, scenarios.lab,
scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.write,
scenarios.observe, scenarios.observe.columns, scenarios.process, scenarios.run, scenarios.search,
scenarios.serve, scenarios.terminal, scenarios.view.
Open first: main.py.
"""
