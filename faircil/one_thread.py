"""Imported first by the server from which workers are forked, so that libraries use one thread.

It also turns garbage collection off, since all imported objects stay. Workers collect garbage among
their own objects only: visiting the others would write to their memory pages, so that every worker
would need its own copy of them.
"""

import gc
import os

from faircil.sending import one_thread_each

one_thread_each()
gc.disable()
os.register_at_fork(before=gc.freeze, after_in_child=gc.enable)
