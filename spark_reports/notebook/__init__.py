"""Notebooks (jupytext) about bundled scenarios: `five_questions` with PySpark, `acks` for a class."""
