-- Once: a row a lock, with the greatest fence that has written.
CREATE TABLE fence (name text PRIMARY KEY, greatest bigint NOT NULL);

-- First in each transaction that writes under the lock. No row comes back: a later holder has
-- written, so roll back and stop.
INSERT INTO fence (name, greatest) VALUES (:name, :fence)
ON CONFLICT (name) DO UPDATE SET greatest = excluded.greatest
WHERE fence.greatest <= excluded.greatest
RETURNING greatest;
