"""`GradientTape`: what it records, what it is asked, and how it answers."""
