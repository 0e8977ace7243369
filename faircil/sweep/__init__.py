"""Many runs: each is made once, by whichever process comes first, and found again."""
