"""The passes over the records of a trace: cotangents backward, tangents forward."""
