"""The page of a run: one HTML file, made by Python from the run's trace the moment the run ends.

`tape.py` turns a trace into what the page plays: events with one sentence each, and the state after each of them.
`questions.py` derives what the page asks before a decisive moment; `page.py` writes the file. The page itself is
TypeScript in `page/`, built into `player.html` by `make page`. Open `tape.py` first.
May import language, observe, check, explain and run.
"""
