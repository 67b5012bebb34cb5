-- The whole schema of a PostgreSQL store.
--
-- First the tables: the ledger, then journals, lanes and documents. Then what is done with them: the two fast
-- transitions, every other transition, the life of sessions, and what the sweeper does in bulk.
--
-- All times are microseconds since the Unix epoch, on the store's clock; 9223372036854775807 never comes.
--
-- Until hapax 0.1.0 is released this file is changed in place. From then on a change is another migration.

-- The ledger: claims, their outcomes, the sessions they hang on, and what lists and counts are made from.

-- What this database is. The origin tells one life of the data from another (a promoted replica, a restored
-- backup); a new one begins a new incarnation of epochs.
CREATE TABLE hapax.meta (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    incarnation smallint NOT NULL,
    origin      text NOT NULL
);

-- Packed epochs: the incarnation in the bits above the 48th, the counter below.
CREATE SEQUENCE hapax.epochs AS bigint MINVALUE 0 START 0;

-- One row per process (L4), and one per lease that is not a process's own: those have a term, the scope that
-- they were opened for, and no memory table. The token
-- keeps a process from renewing a row that only has the number it once had.
CREATE TABLE hapax.sessions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token       uuid NOT NULL,
    opened_at   bigint NOT NULL,
    last        bigint NOT NULL,
    until       bigint NOT NULL,
    -- How far its memory table has followed the invalidations, and until when that table may answer. The
    -- latter is always on the server's clock, because the table counts real time.
    acked       bigint NOT NULL,
    table_until bigint NOT NULL,
    term        bigint,
    scope       text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Tenant, project and operation of a claim, as one number, with how many of its claims stand where.
-- The numbers are right once the rows of hapax.tally are added; only the sweeper writes them.
CREATE TABLE hapax.shelves (
    id        integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    text NOT NULL,
    project   text NOT NULL,
    operation text NOT NULL,
    held      bigint NOT NULL DEFAULT 0,
    settled   bigint NOT NULL DEFAULT 0,
    in_doubt  bigint NOT NULL DEFAULT 0,
    released  bigint NOT NULL DEFAULT 0,
    UNIQUE (tenant, project, operation)
) WITH (fillfactor = 50);

-- One row per claim. Nothing that a settle changes is indexed and half of each page is left free, so that
-- every settle is a HOT update: state, note, since and until change in place.
CREATE TABLE hapax.claims (
    digest       bytea NOT NULL,
    epoch        bigint NOT NULL,
    opened_at    bigint NOT NULL,
    granted_at   bigint NOT NULL,
    since        bigint NOT NULL,   -- settled_at; since; for a held claim its grant
    until        bigint,            -- held: run_until; settled: keep_until; in doubt: asked_at, if it was asked
    session      bigint NOT NULL,
    shelf        integer NOT NULL,
    state        "char" NOT NULL,   -- H held, S settled, D in doubt, R released
    note         "char" NOT NULL,   -- S: by h(older), o(perator); D: l(apsed), f(ailed), s(tated), p(aused);
                                    -- R: ran n(o), w(aived), p(erhaps); H: -
    earlier      "char" NOT NULL,   -- whether an earlier attempt ran: n(o), w(aived), p(erhaps)
    watched      boolean NOT NULL,  -- another process waits for a change: notify it
    leaving      boolean NOT NULL,  -- an operator is about to change it: memory tables must not take it in
    attempt      uuid NOT NULL,
    operation_id uuid NOT NULL,
    fingerprint  bytea NOT NULL,    -- 8 bytes of recipe, 32 of digest
    terms        bytea NOT NULL,    -- rerun, quiet, max_run, give_up, doubt; packed
    identity     bytea NOT NULL,    -- tenant, project, subject, operation, key; packed
    leaves       bytea,
    doubted      bytea,             -- of a held claim that must be asked about: reason, since, session, granted_at
    cause        text,              -- what the holder saw that left the doubt
    PRIMARY KEY (digest)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.1, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE hapax.claims ALTER COLUMN digest SET STORAGE PLAIN, ALTER COLUMN fingerprint SET STORAGE PLAIN;
-- Lists go by it. It changes only with a new grant or an operator's decision.
CREATE INDEX claims_by_shelf ON hapax.claims (shelf, epoch);

-- Insert-only. One key serves replay and sweep.
CREATE TABLE hapax.outcomes (
    keep_until bigint NOT NULL,
    epoch      bigint NOT NULL,
    digest     bytea NOT NULL,
    kind       "char" NOT NULL,     -- S succeeded, R refused, N not kept, E erased
    status     integer,             -- of an outcome that was not kept
    checksum   integer NOT NULL,    -- CRC-32 of the bytes
    bytes      bytea,
    PRIMARY KEY (keep_until, epoch)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE hapax.outcomes ALTER COLUMN digest SET STORAGE PLAIN, ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- What each batch changed, per shelf: how many claims moved to or from each state, and between which epochs
-- the grants lie that nobody has visited yet. The sweeper folds it into hapax.shelves and hapax.unsettled.
CREATE TABLE hapax.tally (
    shelf    integer NOT NULL,
    at       bigint NOT NULL,
    first    bigint,
    last     bigint,
    held     integer NOT NULL,
    settled  integer NOT NULL,
    in_doubt integer NOT NULL,
    released integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The claims that did not simply settle: every claim in doubt, every tombstone, and the held ones that the
-- sweeper met when it came by. A held one may have settled since; the claim itself tells.
CREATE TABLE hapax.unsettled (
    digest bytea PRIMARY KEY,
    shelf  integer NOT NULL,
    epoch  bigint NOT NULL,
    state  "char" NOT NULL,
    due    bigint NOT NULL          -- when time alone changes it; of a held claim: when max_run ends
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX unsettled_by_due ON hapax.unsettled (due);
CREATE INDEX unsettled_by_shelf ON hapax.unsettled (shelf, epoch);
CREATE INDEX unsettled_held ON hapax.unsettled (digest) WHERE state = 'H';

-- What the memory tables of all processes must forget (B7).
CREATE TABLE hapax.invalidations (
    seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     bigint NOT NULL,
    digest bytea NOT NULL
);

-- What is written down for people (L8).
CREATE TABLE hapax.audit (
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           bigint NOT NULL,
    verb         text NOT NULL,
    actor        text NOT NULL,
    reason       text NOT NULL,
    operation_id uuid NOT NULL,
    epoch        bigint NOT NULL,
    before       "char" NOT NULL,
    after        "char",
    kind         "char",
    status       integer,
    bytes        bytea
);
-- An outcome that was set aside (by a reopen, or because it came too late) is kept here until its claim goes (B9).
-- The entry stays; in it the outcome is an erased one.
CREATE INDEX audit_set_aside ON hapax.audit (operation_id) WHERE kind <> 'E';

-- Whose turn it is to sweep.
CREATE TABLE hapax.sweeper (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    session bigint NOT NULL,
    until   bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO hapax.sweeper (session, until) VALUES (0, 0);

-- Journals (J2), lanes (X3) and the registry. None of them has to be fast.

-- A stream's head. `checkpoint` is the place of the event that the latest checkpoint belongs to, `lease` the session of the runner.
CREATE TABLE hapax.streams (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    version    bigint NOT NULL,
    length     bigint NOT NULL,
    hash       bytea,
    status     text,
    runner     uuid,
    lease      bigint,
    checkpoint bigint,
    updated_at bigint NOT NULL,
    chain      integer NOT NULL,
    agent      text,
    subject    text,
    created_at bigint NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX streams_status ON hapax.streams (status, name) WHERE status IS NOT NULL;

-- The head that each write has made, by the write's id: a write that is sent again is answered with it.
CREATE TABLE hapax.appends (
    stream     bigint NOT NULL,
    id         uuid NOT NULL,
    version    bigint NOT NULL,
    length     bigint NOT NULL,
    hash       bytea,
    status     text,
    runner     uuid,
    lease      bigint,
    checkpoint bigint,
    updated_at bigint NOT NULL,
    PRIMARY KEY (stream, id)
);

-- `checkpoint` is the SHA-256 of the checkpoint that belongs to the event. A payload that was erased has no salt either, but the
-- digest of both.
CREATE TABLE hapax.events (
    stream     bigint NOT NULL,
    seq        bigint NOT NULL,
    kind       text NOT NULL,
    at         bigint NOT NULL,
    salt       bytea,
    payload    bytea,
    digest     bytea,
    subject    text,
    checkpoint bytea,
    hash       bytea NOT NULL,
    PRIMARY KEY (stream, seq)
);

-- The latest checkpoint of a stream; without bytes where it was erased.
CREATE TABLE hapax.checkpoints (
    stream bigint PRIMARY KEY,
    seq    bigint NOT NULL,
    bytes  bytea
);

-- Bytes that are no text, such as a sealed payload, are none.
CREATE FUNCTION hapax.as_text(bytes bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- Executions are the streams named execution/{tenant}/{project}/{execution id}; none of the parts has a slash in it.
CREATE VIEW hapax.hapax_executions AS
SELECT split_part(s.name, '/', 4) AS execution_id, s.agent AS agent_id, s.status, s.version,
    to_timestamp(s.created_at / 1000000.0) AS created_at, to_timestamp(s.updated_at / 1000000.0) AS updated_at,
    split_part(s.name, '/', 2) AS tenant, split_part(s.name, '/', 3) AS project
FROM hapax.streams s WHERE s.name >= 'execution/' AND s.name < 'execution0';

CREATE VIEW hapax.hapax_execution_events AS
SELECT s.id || '.' || e.seq AS event_id, split_part(s.name, '/', 4) AS execution_id, e.kind AS event_type,
    s.chain AS schema_version, hapax.as_text(e.payload) AS payload_json, encode(e.hash, 'hex') AS event_hash,
    to_timestamp(e.at / 1000000.0) AS created_at,
    split_part(s.name, '/', 2) AS tenant, split_part(s.name, '/', 3) AS project
FROM hapax.streams s JOIN hapax.events e ON e.stream = s.id WHERE s.name >= 'execution/' AND s.name < 'execution0';

CREATE SEQUENCE hapax.lane_versions;

-- A lane by the digest of its name. `lane` has everything that is decided by; `sessions` are those of its tickets.
CREATE TABLE hapax.lanes (
    digest    bytea PRIMARY KEY,
    version   bigint NOT NULL,
    tenant    text NOT NULL,
    project   text NOT NULL,
    entity    bytea NOT NULL,
    sessions  bigint[] NOT NULL,
    lane      bytea NOT NULL
);

CREATE TABLE hapax.documents (
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    updated_at bigint NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (kind, id)
);

-- A claim with all that deciding about it takes.
CREATE VIEW hapax.standing AS
    SELECT c.digest, c.epoch, c.opened_at, c.granted_at, c.since, c.until, c.session, c.shelf, c.state, c.note,
           c.earlier, c.watched, c.leaving, c.attempt, c.operation_id, c.fingerprint, c.terms, c.identity, c.leaves,
           s.last AS session_last, s.until AS session_until,
           o.kind, o.status, o.checksum, o.bytes, c.doubted, c.cause
    FROM hapax.claims c
    LEFT JOIN hapax.sessions s ON s.id = c.session
    LEFT JOIN hapax.outcomes o ON c.state = 'S' AND o.keep_until = c.until AND o.epoch = c.epoch;

-- The server's clock.
CREATE FUNCTION hapax.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- A time so much later; what would overflow never comes.
CREATE FUNCTION hapax.later(moment bigint, micros bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN micros >= 9223372036854775807 - moment THEN 9223372036854775807 ELSE moment + micros END;

-- The two fast transitions, absent → held and held → settled, for a whole batch at once.
--
-- They never wait for a row that somebody else keeps locked (B3): a claim whose row exists is only read, and
-- a settle passes by any row that was touched since its grant. What they pass by, the caller decides in the
-- slow way. Arrays are sorted by digest, so that two batches meet their rows in the same order and cannot
-- deadlock.

-- The first row tells what the batch did (p_own: and how the session stands that asks); the rows after it are
-- the claims that were there already.
CREATE FUNCTION hapax.batch(
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
    shelf integer, state "char", note "char", earlier "char", watched boolean, leaving boolean, attempt uuid,
    operation_id uuid, fingerprint bytea, terms bytea, identity bytea, leaves bytea, session_last bigint,
    session_until bigint, kind "char", status integer, checksum integer, bytes bytea, doubted bytea, cause text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := coalesce(p_clock, hapax.clock());
BEGIN
    now := moment;
    IF cardinality(s_digest) > 0 THEN
        -- A row without xmax was neither locked nor changed since it was written: nobody can make this wait. An earlier
        -- attempt that may have run is told of with the outcome, and may be what is asked about: that is decided in the slow way.
        WITH done AS (
            UPDATE hapax.claims c
            SET state = 'S', note = 'h', since = moment,
                until = hapax.later(CASE WHEN a.since_grant THEN c.granted_at ELSE moment END, a.keep)
            FROM unnest(s_digest, s_epoch, s_since_grant, s_keep, s_kind, s_status, s_checksum, s_bytes)
                 AS a (digest, epoch, since_grant, keep, kind, status, checksum, bytes)
            WHERE c.digest = a.digest AND c.epoch = a.epoch AND c.state = 'H' AND c.earlier = 'n' AND c.xmax = 0
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
                   a.shelf, 'H', '-', 'n', false, false, a.attempt, a.operation, a.fingerprint, a.terms, a.identity,
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

-- Every other transition: lock a claim, let the rules decide, write what they decided.

-- Locks a claim, or says that somebody else has (p_wait: waits for it instead, for use inside the
-- application's own transaction). The time is read and the epoch drawn after the lock, or a slower one could
-- carry a smaller epoch.
CREATE FUNCTION hapax.lock_claim(p_digest bytea, p_clock bigint, p_wait boolean) RETURNS TABLE (
    now bigint, next_epoch bigint, busy boolean,
    digest bytea, epoch bigint, opened_at bigint, granted_at bigint, since bigint, until bigint, session bigint,
    shelf integer, state "char", note "char", earlier "char", watched boolean, leaving boolean, attempt uuid,
    operation_id uuid, fingerprint bytea, terms bytea, identity bytea, leaves bytea, session_last bigint,
    session_until bigint, kind "char", status integer, checksum integer, bytes bytea, doubted bytea, cause text
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
    p_note "char", p_earlier "char", p_attempt uuid, p_operation_id uuid, p_fingerprint bytea, p_terms bytea,
    p_identity bytea, p_leaves bytea, p_doubted bytea, p_cause text, p_due bigint,
    p_kind "char", p_status integer, p_checksum integer, p_bytes bytea
) RETURNS TABLE (watched boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    old record;
BEGIN
    IF p_old_epoch IS NULL THEN
        INSERT INTO hapax.claims (digest, epoch, opened_at, granted_at, since, until, session, shelf, state, note,
            earlier, watched, leaving, attempt, operation_id, fingerprint, terms, identity, leaves, doubted,
            cause)
        VALUES (p_digest, p_epoch, p_opened_at, p_granted_at, p_since, p_until, p_session, p_shelf, p_state, p_note,
            p_earlier, false, false, p_attempt, p_operation_id, p_fingerprint, p_terms, p_identity, p_leaves, p_doubted,
            p_cause)
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
            doubted = p_doubted, cause = p_cause, identity = coalesce(p_identity, c.identity)
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

-- Destroys what the audit keeps of an operation's outcomes. The caller has the claim locked.
CREATE FUNCTION hapax.forget_set_aside(p_operation uuid) RETURNS void LANGUAGE sql AS $$
    UPDATE hapax.audit SET kind = 'E', status = NULL, bytes = NULL WHERE operation_id = p_operation AND kind <> 'E'
$$;

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

-- The life of the store and of sessions.

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

-- Begins a session.
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

-- What the sweeper does in bulk. Nothing here waits for a row, and everything can be done by several at once.

-- Adds what the batches did to the shelves, and remembers the grants among it that are still held. Rows that
-- tell of grants are left alone until those are p_age old: most of them have settled by then. Those from before the
-- clock was set back would be left alone until it is there again. How many rows were folded.
CREATE FUNCTION hapax.fold_tally(p_clock bigint, p_age bigint, p_limit bigint) RETURNS bigint LANGUAGE plpgsql AS $$
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

-- Makes claims absent whose outcome is past its retention: those settled under that epoch until that time, as
-- `step` says; and what the audit keeps of theirs, as `audit::forgotten` says. Gives their digests.
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
