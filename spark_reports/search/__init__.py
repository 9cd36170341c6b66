"""Searches: the page of many random schedules. It needs no Spark session, wherever they were played."""
