"""The paper's tables and figures again, each by one command."""
