"""The page of a search over many random schedules, which needs no Spark session."""
