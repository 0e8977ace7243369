"""Models: what is left of training for people to use, to go on with, and to keep."""
