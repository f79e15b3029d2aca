"""Control flow that is recorded as one operation: branches, loops, scans."""
