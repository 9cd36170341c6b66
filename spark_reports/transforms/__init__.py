"""Definitions of result tables: pure functions from DataFrames to a DataFrame, which use no session and no files.

results.py declares the columns of the tables.
"""
