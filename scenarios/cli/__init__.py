"""The `highwater` command line: one module per subcommand, imported when the subcommand is called, and its screens.

Commands with several modules have a package each: agree/, read/, searching/, site/, sweep/, watch/.

May import: scenarios.agree, scenarios.bench, scenarios.check, scenarios.explain, scenarios.lab,
scenarios.language, scenarios.language.parse, scenarios.language.values, scenarios.language.write,
scenarios.metrics, scenarios.observe, scenarios.observe.columns, scenarios.play, scenarios.process, scenarios.run,
scenarios.search, scenarios.serve, scenarios.terminal, scenarios.view.
Open first: main.py.
"""
