"""Imported first by the process that workers are copies of: what it loads later has one thread."""

from faircil.sending import one_thread_each

one_thread_each()
