"""The files that type checkers read are not collected: some of what stands there is wrong on purpose."""

collect_ignore = ["refused.py", "revealed.py", "stranger.py"]
