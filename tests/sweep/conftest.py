from __future__ import annotations

from processes import quick_processes as quick_processes
