"""Imported first by the process that workers are copies of: what it loads later has one thread.

Nor does it look for cycles among the objects that are imported, since all of them stay. Workers
look for cycles among their own objects alone: to look at the others would write to their memory, so
that every worker had a copy of it.
"""

import gc
import os

from faircil.sending import one_thread_each

one_thread_each()
gc.disable()
os.register_at_fork(before=gc.freeze, after_in_child=gc.enable)
