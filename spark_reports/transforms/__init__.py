"""Definitions of result tables, each a pure function from DataFrames to a DataFrame, without session or files.

results.py declares the columns of the tables.
"""
