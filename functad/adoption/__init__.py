"""Other people's code: functions that coerce, as functions that take Tensors, and the modules that are to use them."""
