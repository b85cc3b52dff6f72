"""What commands print: the models behind `--json`, and the words for people."""
