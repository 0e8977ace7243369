"""How fast a sweep of runs is with several processes, and what their time goes to."""
