"""A reader for every format: it yields batches of records, and checks none."""
