"""The repository itself: pages, packaging, floors, benches."""
