-- Every other transition: lock a claim, let the rules decide, write what they decided. And the life of
-- sessions.

-- Locks a claim, or says that somebody else has (p_wait: waits for it instead, for use inside the
-- application's own transaction). The time is read and the epoch drawn after the lock, or a slower one could
-- carry a smaller epoch.
CREATE FUNCTION hapax.lock_claim(p_digest bytea, p_clock bigint, p_wait boolean) RETURNS TABLE (
    now bigint, next_epoch bigint, busy boolean,
    digest bytea, epoch bigint, opened_at bigint, granted_at bigint, since bigint, until bigint, session bigint,
    shelf integer, state "char", note "char", earlier boolean, watched boolean, leaving boolean, attempt uuid,
    operation_id uuid, fingerprint bytea, terms bytea, identity bytea, leaves bytea, session_last bigint,
    session_until bigint, kind "char", status integer, checksum integer, bytes bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_wait THEN
        PERFORM FROM hapax.claims c WHERE c.digest = p_digest FOR UPDATE;
    ELSE
        PERFORM FROM hapax.claims c WHERE c.digest = p_digest FOR UPDATE SKIP LOCKED;
    END IF;
    busy := NOT FOUND;
    now := coalesce(p_clock, hapax.clock());
    next_epoch := nextval('hapax.epochs');
    RETURN QUERY
    SELECT now, next_epoch, busy AND st.digest IS NOT NULL, st.*
    FROM (VALUES (1)) AS one LEFT JOIN hapax.standing st ON st.digest = p_digest;
END $$;

-- Notes that one claim moved from a state to another; null stands for absent.
CREATE FUNCTION hapax.count_move(p_shelf integer, p_now bigint, p_from "char", p_to "char", p_epoch bigint)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO hapax.tally (shelf, at, first, last, held, settled, in_doubt, released)
    SELECT p_shelf, p_now, CASE WHEN p_to = 'H' THEN p_epoch END, CASE WHEN p_to = 'H' THEN p_epoch END,
           (p_to IS NOT DISTINCT FROM 'H')::int - (p_from IS NOT DISTINCT FROM 'H')::int,
           (p_to IS NOT DISTINCT FROM 'S')::int - (p_from IS NOT DISTINCT FROM 'S')::int,
           (p_to IS NOT DISTINCT FROM 'D')::int - (p_from IS NOT DISTINCT FROM 'D')::int,
           (p_to IS NOT DISTINCT FROM 'R')::int - (p_from IS NOT DISTINCT FROM 'R')::int
$$;

-- Writes a claim over the one that has p_old_epoch and p_old_state (null: over none). p_identity is null
-- where it stays what it is; the shelf always does, because the digest covers it. No row: somebody else was
-- faster, and nothing was written.
CREATE FUNCTION hapax.put_claim(
    p_now bigint, p_old_epoch bigint, p_old_state "char", p_digest bytea, p_epoch bigint, p_opened_at bigint,
    p_granted_at bigint, p_since bigint, p_until bigint, p_session bigint, p_shelf integer, p_state "char",
    p_note "char", p_earlier boolean, p_attempt uuid, p_operation_id uuid, p_fingerprint bytea, p_terms bytea,
    p_identity bytea, p_leaves bytea, p_due bigint, p_kind "char", p_status integer, p_checksum integer, p_bytes bytea
) RETURNS TABLE (watched boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    old record;
BEGIN
    IF p_old_epoch IS NULL THEN
        INSERT INTO hapax.claims (digest, epoch, opened_at, granted_at, since, until, session, shelf, state, note,
            earlier, watched, leaving, attempt, operation_id, fingerprint, terms, identity, leaves)
        VALUES (p_digest, p_epoch, p_opened_at, p_granted_at, p_since, p_until, p_session, p_shelf, p_state, p_note,
            p_earlier, false, false, p_attempt, p_operation_id, p_fingerprint, p_terms, p_identity, p_leaves)
        ON CONFLICT (digest) DO NOTHING;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        SELECT p_shelf AS shelf, NULL::bigint AS until, false AS watched INTO old;
    ELSE
        SELECT c.shelf, c.until, c.watched INTO old FROM hapax.claims c
        WHERE c.digest = p_digest AND c.epoch = p_old_epoch AND c.state = p_old_state FOR UPDATE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        UPDATE hapax.claims c
        SET epoch = p_epoch, opened_at = p_opened_at, granted_at = p_granted_at, since = p_since, until = p_until,
            session = p_session, state = p_state, note = p_note, earlier = p_earlier, leaving = false, attempt = p_attempt,
            operation_id = p_operation_id, fingerprint = p_fingerprint, terms = p_terms, leaves = p_leaves,
            identity = coalesce(p_identity, c.identity)
        WHERE c.digest = p_digest;
        IF p_old_state = 'S' THEN
            DELETE FROM hapax.outcomes o WHERE o.keep_until = old.until AND o.epoch = p_old_epoch;
        END IF;
    END IF;
    PERFORM hapax.count_move(old.shelf, p_now, p_old_state, p_state, p_epoch);
    IF p_state = 'S' THEN
        INSERT INTO hapax.outcomes (keep_until, epoch, digest, kind, status, checksum, bytes)
        VALUES (p_until, p_epoch, p_digest, p_kind, p_status, p_checksum, p_bytes);
    END IF;
    IF p_state IN ('D', 'R') THEN
        INSERT INTO hapax.unsettled (digest, shelf, epoch, state, due)
        VALUES (p_digest, old.shelf, p_epoch, p_state, p_due)
        ON CONFLICT (digest) DO UPDATE SET epoch = excluded.epoch, state = excluded.state, due = excluded.due;
    ELSE
        DELETE FROM hapax.unsettled u WHERE u.digest = p_digest;
    END IF;
    watched := old.watched;
    RETURN NEXT;
END $$;

-- Makes the claim that has this epoch and state absent. No row: somebody else was faster.
CREATE FUNCTION hapax.remove_claim(p_now bigint, p_digest bytea, p_epoch bigint, p_state "char")
RETURNS TABLE (watched boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    old record;
BEGIN
    DELETE FROM hapax.claims c WHERE c.digest = p_digest AND c.epoch = p_epoch AND c.state = p_state
    RETURNING c.shelf, c.until, c.watched INTO old;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_state = 'S' THEN
        DELETE FROM hapax.outcomes o WHERE o.keep_until = old.until AND o.epoch = p_epoch;
    END IF;
    DELETE FROM hapax.unsettled u WHERE u.digest = p_digest;
    PERFORM hapax.count_move(old.shelf, p_now, p_state, NULL, NULL);
    watched := old.watched;
    RETURN NEXT;
END $$;

-- Where these bytes come from: another cluster, another timeline, another database or another table is
-- another life. The timeline is asked of the write-ahead log, because the control file learns of a promotion
-- only later.
CREATE FUNCTION hapax.origin() RETURNS text LANGUAGE sql VOLATILE
RETURN (SELECT system_identifier FROM pg_control_system())::text
    || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
    || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())::text
    || '/' || ('hapax.claims'::regclass)::oid::text;

-- The present incarnation; begins a new one when the bytes have another origin than before (L4).
CREATE FUNCTION hapax.incarnation() RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    found_here text := hapax.origin();
    current hapax.meta;
BEGIN
    SELECT * INTO current FROM hapax.meta;
    IF current.origin = found_here THEN
        RETURN current.incarnation;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('hapax.incarnation'));
    SELECT * INTO current FROM hapax.meta;
    IF current.origin = found_here THEN
        RETURN current.incarnation;
    END IF;
    INSERT INTO hapax.meta AS m (incarnation, origin) VALUES (1, found_here)
    ON CONFLICT (one) DO UPDATE SET incarnation = m.incarnation + 1, origin = excluded.origin
    RETURNING * INTO current;
    -- Not undone by a rollback, which only makes the epochs larger than they need to be.
    PERFORM setval('hapax.epochs', greatest(e.last_value, current.incarnation::bigint << 48)) FROM hapax.epochs e;
    RETURN current.incarnation;
END $$;

-- Tells every memory table to forget a settled claim, and not to take it in again, because it is about to be
-- changed (B7). The lock makes the numbers visible in their order. No row: it is not settled under this
-- epoch, or it is locked.
CREATE FUNCTION hapax.send_away(p_digest bytea, p_epoch bigint) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM hapax.claims c WHERE c.digest = p_digest AND c.epoch = p_epoch AND c.state = 'S'
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE hapax.claims c SET leaving = true WHERE c.digest = p_digest;
    PERFORM pg_advisory_xact_lock(hashtext('hapax.invalidations'));
    RETURN QUERY
    INSERT INTO hapax.invalidations AS i (at, digest) VALUES (hapax.clock(), p_digest) RETURNING i.seq;
END $$;

CREATE FUNCTION hapax.open_session(p_token uuid, p_clock bigint, p_term bigint)
RETURNS TABLE (id bigint, now bigint, acked bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    now := coalesce(p_clock, hapax.clock());
    SELECT coalesce(max(i.seq), 0) INTO acked FROM hapax.invalidations i;
    INSERT INTO hapax.sessions AS s (token, opened_at, last, until, acked, table_until)
    VALUES (p_token, now, now, hapax.later(now, p_term), acked, hapax.clock())
    RETURNING s.id INTO id;
    RETURN NEXT;
END $$;

-- Renews a session (p_term null: does not) and brings what its memory table must forget. No row: the session
-- is gone. p_validity is how long that table may answer from now on; it counts from before the call was sent.
CREATE FUNCTION hapax.renew_session(
    p_id bigint, p_token uuid, p_clock bigint, p_term bigint, p_acked bigint, p_validity bigint
) RETURNS TABLE (now bigint, acked bigint, forget bytea[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    now := coalesce(p_clock, hapax.clock());
    IF p_term IS NULL THEN
        UPDATE hapax.sessions s SET acked = p_acked WHERE s.id = p_id AND s.token = p_token;
    ELSE
        UPDATE hapax.sessions s
        SET last = now, until = hapax.later(now, p_term), acked = p_acked, table_until = hapax.clock() + p_validity
        WHERE s.id = p_id AND s.token = p_token;
    END IF;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT coalesce(max(i.seq), p_acked), array_agg(i.digest) INTO acked, forget
    FROM hapax.invalidations i WHERE i.seq > p_acked;
    RETURN NEXT;
END $$;
