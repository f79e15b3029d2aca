"""The names of TensorFlow: `tf` and `tfe`. Code written for TensorFlow runs on functad with only its imports changed."""
