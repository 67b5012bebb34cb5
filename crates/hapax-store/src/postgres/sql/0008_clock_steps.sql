-- What the sweeper does holds also when the server's clock is set forward or back (L12).

-- Adds what the batches did to the shelves, and remembers the grants among it that are still held. Rows that
-- tell of grants are left alone until those are p_age old: most of them have settled by then. Those from before the
-- clock was set back would be left alone until it is there again. How many rows were folded.
CREATE OR REPLACE FUNCTION hapax.fold_tally(p_clock bigint, p_age bigint, p_limit bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := coalesce(p_clock, hapax.clock());
    folded bigint;
BEGIN
    WITH gone AS MATERIALIZED (
        DELETE FROM hapax.tally WHERE ctid = ANY (ARRAY(
            SELECT t.ctid FROM hapax.tally t
            WHERE t.first IS NULL OR t.at <= moment - p_age OR t.at > moment + p_age
            LIMIT p_limit))
        RETURNING *
    ), counted AS (
        UPDATE hapax.shelves s
        SET held = s.held + g.held, settled = s.settled + g.settled, in_doubt = s.in_doubt + g.in_doubt,
            released = s.released + g.released
        FROM (SELECT shelf, sum(held) AS held, sum(settled) AS settled, sum(in_doubt) AS in_doubt,
                     sum(released) AS released
              FROM gone GROUP BY shelf ORDER BY shelf) g
        WHERE s.id = g.shelf
    ), met AS (
        INSERT INTO hapax.unsettled AS u (digest, shelf, epoch, state, due)
        SELECT DISTINCT ON (c.digest) c.digest, c.shelf, c.epoch, c.state, c.until
        FROM gone g JOIN hapax.claims c ON c.shelf = g.shelf AND c.epoch BETWEEN g.first AND g.last
        WHERE c.state = 'H'
        ORDER BY c.digest
        ON CONFLICT (digest) DO UPDATE SET epoch = excluded.epoch, state = excluded.state, due = excluded.due
            WHERE u.epoch < excluded.epoch
    )
    SELECT count(*) INTO folded FROM gone;
    RETURN folded;
END $$;

-- Forgets held claims that have settled since they were met, and invalidations that every table has followed or no
-- table needs. The last one stays: so a table sees from the numbers whether one is gone that it has not followed,
-- because the clock was set forward.
CREATE FUNCTION hapax.clear_away(p_invalidation_kept bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM hapax.unsettled u WHERE u.state = 'H' AND u.digest = ANY (ARRAY(
        SELECT h.digest FROM hapax.unsettled h
        WHERE h.state = 'H' AND NOT EXISTS (
            SELECT FROM hapax.claims c WHERE c.digest = h.digest AND c.epoch = h.epoch AND c.state = 'H')
        FOR UPDATE SKIP LOCKED));
    DELETE FROM hapax.invalidations i
    WHERE i.at < hapax.clock() - p_invalidation_kept AND i.seq < (SELECT max(seq) FROM hapax.invalidations);
END $$;

-- What older processes call. It forgot sessions, too, by the clock alone.
CREATE OR REPLACE FUNCTION hapax.clear_away(p_clock bigint, p_session_kept bigint, p_invalidation_kept bigint)
RETURNS void LANGUAGE sql AS $$ SELECT hapax.clear_away(p_invalidation_kept) $$;
