"""Makes the wall clock of a Python process jump: an hour ahead and an hour back in turn, every two seconds.

Python imports this module at its start where its folder is in PYTHONPATH. Only ``time.time`` is changed, not the clock
of the machine.
"""

import time

_now, HOUR = time.time, 3600.0


def jumping() -> float:
    return _now() + (HOUR if int(time.monotonic()) // 2 % 2 else -HOUR)


time.time = jumping
