"""The walks over a list of records: cotangents back, tangents forward."""
