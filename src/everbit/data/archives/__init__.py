"""The official archives of data sets: fetched, verified, and turned into the files that everbit reads."""
