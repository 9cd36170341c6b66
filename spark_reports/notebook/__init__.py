"""Jupytext notebooks about bundled scenarios: `five_questions` uses PySpark, `acks` is for teaching."""
