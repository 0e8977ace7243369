from __future__ import annotations

from tiny_encoder import tiny_encoder as tiny_encoder
