"""Render the page of a search over many random schedules. This needs no Spark session."""
