-- An outcome that was set aside (by a reopen, or because it came too late) is kept in the audit until its claim
-- goes (L8, B9). The entry stays; in it the outcome is an erased one.

CREATE INDEX audit_set_aside ON hapax.audit (operation_id) WHERE kind <> 'E';

-- Destroys what the audit keeps of an operation's outcomes. Whoever calls it has the claim locked.
CREATE FUNCTION hapax.forget_set_aside(p_operation uuid) RETURNS void LANGUAGE sql AS $$
    UPDATE hapax.audit SET kind = 'E', status = NULL, bytes = NULL WHERE operation_id = p_operation AND kind <> 'E'
$$;

-- Makes claims absent whose outcome is past its retention: those settled under that epoch until that time, as
-- `step` says; and what the audit keeps of theirs, as `audit::forgotten` says. Gives their digests.
CREATE OR REPLACE FUNCTION hapax.expire(p_clock bigint, p_limit bigint) RETURNS SETOF bytea LANGUAGE plpgsql AS $$
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
        RETURNING c.digest, c.shelf, c.operation_id, l.keep_until, l.epoch
    ), forgotten AS (
        DELETE FROM hapax.outcomes o USING absent a WHERE o.keep_until = a.keep_until AND o.epoch = a.epoch
    ), set_aside AS (
        UPDATE hapax.audit SET kind = 'E', status = NULL, bytes = NULL
        WHERE operation_id = ANY (ARRAY(SELECT a.operation_id FROM absent a)) AND kind <> 'E'
    ), counted AS (
        INSERT INTO hapax.tally (shelf, at, held, settled, in_doubt, released)
        SELECT a.shelf, moment, 0, -count(*), 0, 0 FROM absent a GROUP BY a.shelf
    )
    SELECT a.digest FROM absent a;
END $$;
