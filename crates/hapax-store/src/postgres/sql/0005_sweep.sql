-- What the sweeper does in bulk. Nothing here waits for a row, and everything can be done by several at once.

-- Whose turn it is to sweep.
CREATE TABLE hapax.sweeper (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    session bigint NOT NULL,
    until   bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO hapax.sweeper (session, until) VALUES (0, 0);

-- Adds what the batches did to the shelves, and remembers the grants among it that are still held. Rows that
-- tell of grants are left alone until those are p_age old: most of them have settled by then. How many rows
-- were folded.
CREATE FUNCTION hapax.fold_tally(p_clock bigint, p_age bigint, p_limit bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := coalesce(p_clock, hapax.clock());
    folded bigint;
BEGIN
    WITH gone AS MATERIALIZED (
        DELETE FROM hapax.tally WHERE ctid = ANY (ARRAY(
            SELECT t.ctid FROM hapax.tally t WHERE t.first IS NULL OR t.at <= moment - p_age
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

-- Makes claims absent whose outcome is past its retention: those settled under that epoch until that time, as
-- `step` says. Gives their digests.
CREATE FUNCTION hapax.expire(p_clock bigint, p_limit bigint) RETURNS SETOF bytea LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := coalesce(p_clock, hapax.clock());
BEGIN
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT o.keep_until, o.epoch, o.digest FROM hapax.outcomes o WHERE o.keep_until <= moment
        ORDER BY o.keep_until, o.epoch LIMIT p_limit
    ), locked AS MATERIALIZED (
        SELECT c.digest, d.keep_until, d.epoch FROM due d
        JOIN hapax.claims c ON c.digest = d.digest AND c.epoch = d.epoch AND c.state = 'S' AND c.until = d.keep_until
        ORDER BY c.digest FOR UPDATE OF c SKIP LOCKED
    ), absent AS (
        DELETE FROM hapax.claims c USING locked l WHERE c.digest = l.digest
        RETURNING c.digest, c.shelf, l.keep_until, l.epoch
    ), forgotten AS (
        DELETE FROM hapax.outcomes o USING absent a WHERE o.keep_until = a.keep_until AND o.epoch = a.epoch
    ), counted AS (
        INSERT INTO hapax.tally (shelf, at, held, settled, in_doubt, released)
        SELECT a.shelf, moment, 0, -count(*), 0, 0 FROM absent a GROUP BY a.shelf
    )
    SELECT a.digest FROM absent a;
END $$;

-- Forgets held claims that have settled since they were met, sessions that ended long ago and hold nothing,
-- and invalidations that every table has followed or no table needs.
CREATE FUNCTION hapax.clear_away(p_clock bigint, p_session_kept bigint, p_invalidation_kept bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := coalesce(p_clock, hapax.clock());
BEGIN
    DELETE FROM hapax.unsettled u WHERE u.state = 'H' AND u.digest = ANY (ARRAY(
        SELECT h.digest FROM hapax.unsettled h
        WHERE h.state = 'H' AND NOT EXISTS (
            SELECT FROM hapax.claims c WHERE c.digest = h.digest AND c.epoch = h.epoch AND c.state = 'H')
        FOR UPDATE SKIP LOCKED));
    DELETE FROM hapax.sessions s
    -- Nobody has heard of it for as long in real time, whatever clock is used.
    WHERE s.until < moment - p_session_kept AND s.table_until < hapax.clock() - p_session_kept
        AND NOT EXISTS (SELECT FROM hapax.tally t WHERE t.first IS NOT NULL AND t.at <= s.until)
        AND NOT EXISTS (SELECT FROM hapax.unsettled u JOIN hapax.claims c ON c.digest = u.digest
                        WHERE u.state = 'H' AND c.session = s.id);
    DELETE FROM hapax.invalidations i WHERE i.at < hapax.clock() - p_invalidation_kept;
END $$;
