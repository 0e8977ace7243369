"""Data: from files and tables to streams of tasks."""
