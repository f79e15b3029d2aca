"""Names of other libraries: code written for them runs on functad with only its imports changed."""
