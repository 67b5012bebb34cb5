-- A retention since the grant counts from the grant under which the claim is settled (H9). It counted from the
-- first one, which a claim keeps through every release: after an outage longer than the retention an outcome was
-- past it as soon as it was settled. Otherwise `hapax.batch` is as it was.

-- The first row tells what the batch did (p_own: and how the session stands that asks); the rows after it are
-- the claims that were there already.
CREATE OR REPLACE FUNCTION hapax.batch(
    p_clock bigint, p_session bigint, p_own boolean,
    c_digest bytea[], c_attempt uuid[], c_operation uuid[], c_fingerprint bytea[], c_terms bytea[], c_run bigint[],
    c_shelf integer[], c_identity bytea[], c_leaves bytea[],
    s_digest bytea[], s_epoch bigint[], s_since_grant boolean[], s_keep bigint[],
    s_kind "char"[], s_status integer[], s_checksum integer[], s_bytes bytea[]
) RETURNS TABLE (
    now bigint, own_last bigint, own_until bigint,
    granted_digests bytea[], granted_epochs bigint[],
    settled_digests bytea[], settled_keep bigint[], settled_attempts uuid[], settled_operations uuid[],
    changed_watched bytea[],
    digest bytea, epoch bigint, opened_at bigint, granted_at bigint, since bigint, until bigint, session bigint,
    shelf integer, state "char", note "char", earlier boolean, watched boolean, leaving boolean, attempt uuid,
    operation_id uuid, fingerprint bytea, terms bytea, identity bytea, leaves bytea, session_last bigint,
    session_until bigint, kind "char", status integer, checksum integer, bytes bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := coalesce(p_clock, hapax.clock());
BEGIN
    now := moment;
    IF cardinality(s_digest) > 0 THEN
        -- A row without xmax was neither locked nor changed since it was written: nobody can make this wait.
        WITH done AS (
            UPDATE hapax.claims c
            SET state = 'S', note = 'h', since = moment,
                until = hapax.later(CASE WHEN a.since_grant THEN c.granted_at ELSE moment END, a.keep)
            FROM unnest(s_digest, s_epoch, s_since_grant, s_keep, s_kind, s_status, s_checksum, s_bytes)
                 AS a (digest, epoch, since_grant, keep, kind, status, checksum, bytes)
            WHERE c.digest = a.digest AND c.epoch = a.epoch AND c.state = 'H' AND c.xmax = 0
            RETURNING c.digest, c.epoch, c.until, c.shelf, c.watched, c.attempt, c.operation_id,
                      a.kind, a.status, a.checksum, a.bytes
        ), kept AS (
            INSERT INTO hapax.outcomes (keep_until, epoch, digest, kind, status, checksum, bytes)
            SELECT d.until, d.epoch, d.digest, d.kind, d.status, d.checksum, d.bytes FROM done d
        ), counted AS (
            INSERT INTO hapax.tally (shelf, at, held, settled, in_doubt, released)
            SELECT d.shelf, moment, -count(*), count(*), 0, 0 FROM done d GROUP BY d.shelf
        )
        SELECT array_agg(d.digest), array_agg(d.until), array_agg(d.attempt), array_agg(d.operation_id),
               array_agg(d.digest) FILTER (WHERE d.watched)
        INTO settled_digests, settled_keep, settled_attempts, settled_operations, changed_watched
        FROM done d;
    END IF;
    IF cardinality(c_digest) > 0 THEN
        WITH won AS (
            INSERT INTO hapax.claims AS c (digest, epoch, opened_at, granted_at, since, until, session, shelf, state,
                note, earlier, watched, leaving, attempt, operation_id, fingerprint, terms, identity, leaves)
            SELECT a.digest, nextval('hapax.epochs'), moment, moment, moment, hapax.later(moment, a.run), p_session,
                   a.shelf, 'H', '-', false, false, false, a.attempt, a.operation, a.fingerprint, a.terms, a.identity,
                   a.leaves
            FROM unnest(c_digest, c_attempt, c_operation, c_fingerprint, c_terms, c_run, c_shelf, c_identity, c_leaves)
                 AS a (digest, attempt, operation, fingerprint, terms, run, shelf, identity, leaves)
            WHERE NOT EXISTS (SELECT FROM hapax.claims present WHERE present.digest = a.digest)
            ON CONFLICT (digest) DO NOTHING
            RETURNING c.digest, c.epoch, c.shelf
        ), counted AS (
            INSERT INTO hapax.tally (shelf, at, first, last, held, settled, in_doubt, released)
            SELECT w.shelf, moment, min(w.epoch), max(w.epoch), count(*), 0, 0, 0 FROM won w GROUP BY w.shelf
        )
        SELECT array_agg(w.digest), array_agg(w.epoch) INTO granted_digests, granted_epochs FROM won w;
        IF p_own THEN
            SELECT s.last, s.until INTO own_last, own_until FROM hapax.sessions s WHERE s.id = p_session;
        END IF;
    END IF;
    RETURN NEXT;
    IF cardinality(c_digest) > coalesce(cardinality(granted_digests), 0) THEN
        RETURN QUERY
        SELECT moment, NULL::bigint, NULL::bigint, NULL::bytea[], NULL::bigint[], NULL::bytea[], NULL::bigint[],
               NULL::uuid[], NULL::uuid[], NULL::bytea[], st.*
        FROM unnest(c_digest, c_attempt) AS a (digest, attempt)
        JOIN hapax.standing st ON st.digest = a.digest
        -- Not what was granted just now; but what was granted to the same attempt before, if its answer was
        -- lost.
        WHERE st.attempt <> a.attempt OR granted_epochs IS NULL OR st.epoch < granted_epochs[1];
    END IF;
END $$;
