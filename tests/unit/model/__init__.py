"""The rules by themselves: no store, no clock, no wait."""
