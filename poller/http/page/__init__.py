"""The status page: all pollers, and one of them, for a browser. It reads, and changes nothing.

| module | what it does |
|---|---|
| `details` | what a poller's page says beyond its health, of its document, its records, its audit trail |
| `detail_looks` | shares these reads among all who look |
| `words`, `plot`, `charts` | numbers, ages and states as people read them; the places of bars and points in a drawing |
| `list_query` | which part of the list is asked for, or why that cannot be meant |
| `listing`, `one_poller` | what the two pages say |
| `pages` | the HTML, by the templates beside it, and the headers that fence it in |

What a page cannot say: `details` takes no row, cursor, key value, address or setting out of what it reads, and of an
error its type only. Every text that a template writes is escaped twice: what could steer a terminal or turn the
reading direction by `pages`, and HTML by Jinja2, also inside SVG. Jinja2 is imported when a page is asked for.

A browser gets a key only from the person before it: `templates/page.js` keeps it in a variable.
"""
