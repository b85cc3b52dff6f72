-- The table that the pollers watch: a timestamp that the database sets when a row is written, also at every UPDATE (the
-- trigger), a key, and the index that serves both.
CREATE TABLE orders (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    updated_at timestamptz NOT NULL DEFAULT now(),
    status     text NOT NULL,
    total      numeric(10, 2) NOT NULL
);
CREATE INDEX orders_cursor ON orders (updated_at, id);
CREATE FUNCTION orders_touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END $$;
CREATE TRIGGER orders_touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION orders_touch();

INSERT INTO orders (status, total)
SELECT (ARRAY['new', 'paid', 'shipped'])[1 + n % 3], (n * 7919 % 20000) / 100.0
FROM generate_series(1, 1000) AS n;
