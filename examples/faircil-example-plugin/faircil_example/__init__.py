"""One own piece of each kind for faircil."""
