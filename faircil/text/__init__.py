"""Texts: as rows of token ids for a net that is fine-tuned, or as embeddings of a frozen encoder.

encoder → tokens → chunks with a token budget → one vector per text → the head of the net.
"""
