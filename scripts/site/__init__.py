"""The documentation as a site: `python -m scripts.site` builds it into build/docs/site; dead links are errors."""
