-- The ledger: claims, their outcomes, the sessions they hang on, and what lists and counts are made from.
--
-- All times are microseconds since the Unix epoch, on the store's clock; 9223372036854775807 never comes.

-- What this database is. The origin tells one life of the data from another (a promoted replica, a restored
-- backup); a new one begins a new incarnation of epochs.
CREATE TABLE hapax.meta (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    incarnation smallint NOT NULL,
    origin      text NOT NULL
);

-- Packed epochs: the incarnation in the bits above the 48th, the counter below.
CREATE SEQUENCE hapax.epochs AS bigint MINVALUE 0 START 0;

-- One row per process (L4). The token keeps a process from renewing a row that only has the number it once
-- had.
CREATE TABLE hapax.sessions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token       uuid NOT NULL,
    opened_at   bigint NOT NULL,
    last        bigint NOT NULL,
    until       bigint NOT NULL,
    -- How far its memory table has followed the invalidations, and until when that table may answer. The
    -- latter is always on the server's clock, because the table counts real time.
    acked       bigint NOT NULL,
    table_until bigint NOT NULL
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
                                    -- R: ran n(o), p(erhaps); H: -
    earlier      boolean NOT NULL,  -- an earlier attempt may have run
    watched      boolean NOT NULL,  -- another process waits for a change: notify it
    leaving      boolean NOT NULL,  -- an operator is about to change it: memory tables must not take it in
    attempt      uuid NOT NULL,
    operation_id uuid NOT NULL,
    fingerprint  bytea NOT NULL,    -- 8 bytes of recipe, 32 of digest
    terms        bytea NOT NULL,    -- rerun, quiet, max_run, give_up, doubt; packed
    identity     bytea NOT NULL,    -- tenant, project, subject, operation, key; packed
    leaves       bytea,
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

-- A claim with all that deciding about it takes.
CREATE VIEW hapax.standing AS
    SELECT c.digest, c.epoch, c.opened_at, c.granted_at, c.since, c.until, c.session, c.shelf, c.state, c.note,
           c.earlier, c.watched, c.leaving, c.attempt, c.operation_id, c.fingerprint, c.terms, c.identity, c.leaves,
           s.last AS session_last, s.until AS session_until,
           o.kind, o.status, o.checksum, o.bytes
    FROM hapax.claims c
    LEFT JOIN hapax.sessions s ON s.id = c.session
    LEFT JOIN hapax.outcomes o ON c.state = 'S' AND o.keep_until = c.until AND o.epoch = c.epoch;
