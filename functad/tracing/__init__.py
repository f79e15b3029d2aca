"""From a function to its list: the Tensor and the recorder."""
