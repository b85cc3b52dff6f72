"""The rules, pure: the state document, its transitions, cursors, fingerprints, expiry. No I/O, no clock."""
