"""Stands on PYTHONPATH while `python -m tests.mutation.record` runs tests: every Python process watches its calls."""

import contextlib
import threading

with contextlib.suppress(ImportError):
    import mpbroker_touched

    threading.setprofile(mpbroker_touched.watch)  # new threads; the first call in each puts the C function in its place
    mpbroker_touched.watch()
