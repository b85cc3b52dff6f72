"""What commands print: models behind `--json`, and words, tables and screens for people."""
