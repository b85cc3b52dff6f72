-- The table that the pollers watch: a timestamp set by the database, a key, and the index that serves both.
CREATE TABLE orders (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    updated_at timestamptz NOT NULL DEFAULT now(),
    status     text NOT NULL,
    total      numeric(10, 2) NOT NULL
);
CREATE INDEX orders_cursor ON orders (updated_at, id);

INSERT INTO orders (status, total)
SELECT (ARRAY['new', 'paid', 'shipped'])[1 + n % 3], (n * 7919 % 20000) / 100.0
FROM generate_series(1, 1000) AS n;
