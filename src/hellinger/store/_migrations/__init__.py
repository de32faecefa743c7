"""The schema's history. The newest revision is the schema that this version of the package works with."""
