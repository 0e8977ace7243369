"""The benchmark for others: a frozen suite of streams, its scores, and the leaderboard."""
