"""The verbs of the timeline. One class declares everything about a verb: its keys, documentation, example and sentence.

The parser, the lock file, descriptions, the JSON Schema, LANGUAGE.md and `highwater fault` are derived from it. The
package scenarios.run executes the verbs.

May import: scenarios.language, scenarios.language.values.
Open first: declaration.py.
"""
