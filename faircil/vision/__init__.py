"""Images as inputs: vectors of a frozen encoder, or pixels.

file → 3 × S × S pixels → one vector per image → the net; or the pixels themselves.
"""
