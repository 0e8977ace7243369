"""Texts as inputs: token ids for a fine-tuned encoder, or embeddings of a frozen one.

encoder → tokens → chunks with a token budget → one vector per text → the head of the net.
"""
