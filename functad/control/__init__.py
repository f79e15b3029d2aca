"""Control flow recorded as one operation: branches, loops, scans."""
