-- The tables of an embedded store. Times are microseconds since 1970, durations microseconds. Every `crc` is
-- the CRC-32 of the record's other values. `hapax_claims` is the table for people.

-- One row: what the store knows of itself.
CREATE TABLE store (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    oldest_compatible INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    epoch_reserved INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    latest_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    recent_from INTEGER NOT NULL,
    recent_to INTEGER NOT NULL,
    recent_done INTEGER NOT NULL,
    recent_round INTEGER NOT NULL,
    recent_prefix INTEGER NOT NULL,
    recent_claim INTEGER NOT NULL,
    crc INTEGER NOT NULL
) STRICT;

-- One row for each time the store was opened for writing, and for each lease that is not a process's own: those have a term,
-- and the scope that they were opened for.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    started_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    term INTEGER,
    scope TEXT,
    crc INTEGER NOT NULL
) STRICT;

-- Claims are kept together by what they are about; the counts are those of the stored states.
CREATE TABLE shelves (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    project TEXT NOT NULL,
    operation TEXT NOT NULL,
    held INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    in_doubt INTEGER NOT NULL,
    released INTEGER NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX shelves_name ON shelves (tenant, project, operation);

-- A claim's id is its shelf (id >> 40) and its place there, in the order of opening. A row has nearly the
-- same length in every state, so that a settle overwrites it in place: what does not apply is the greatest
-- number (a time that never comes), or for `outcome` a negative one; and codes start at 2, because SQLite
-- stores 0 and 1 in no bytes at all. The row of a held claim that must be asked about has the doubt in `since` and
-- `why`, and the grant that it is about in `asked_at` (when) and `status` (the session). `cause` is the text of a doubt.
CREATE TABLE claims (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    state INTEGER NOT NULL,
    due INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    attempt BLOB NOT NULL,
    operation_id BLOB NOT NULL,
    recipe INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    session INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    granted_at INTEGER NOT NULL,
    rerun INTEGER NOT NULL,
    quiet INTEGER NOT NULL,
    max_run INTEGER NOT NULL,
    give_up INTEGER NOT NULL,
    doubt_after INTEGER,
    doubt_then INTEGER,
    earlier INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    why INTEGER NOT NULL,
    asked_at INTEGER,
    outcome_kind INTEGER NOT NULL,
    status INTEGER,
    outcome INTEGER NOT NULL,
    leaves INTEGER NOT NULL,
    identity BLOB NOT NULL,
    cause TEXT,
    crc INTEGER NOT NULL
) STRICT;
-- What is in flight: everything but the settled.
CREATE INDEX claims_open ON claims (state) WHERE state <> 3;
-- What time will change.
CREATE INDEX claims_due ON claims (due) WHERE due < 9223372036854775807;

-- Finds a claim by the first eight bytes of its digest, a number here. The checksum is there so that a damaged
-- entry cannot pass for the absence of a claim.
CREATE TABLE finder (
    prefix INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (prefix, claim)
) STRICT, WITHOUT ROWID;

-- What `finder` may not have been told yet, in the order in which it happened. A row's id is the number of its
-- first note. A note is a prefix and a claim's id, negative when it was removed, each in eight bytes. `store` has
-- the numbers of the first note and of the next one; it says before which none is needed any more, which was the
-- next one when the present round through `finder` began, and after which entry that goes on.
CREATE TABLE recent (
    id INTEGER PRIMARY KEY,
    notes BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;

CREATE TABLE outcomes (
    id INTEGER PRIMARY KEY,
    claim INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE leaves (
    claim INTEGER PRIMARY KEY,
    crc INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    verb TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    operation_id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    before INTEGER NOT NULL,
    after INTEGER,
    outcome_kind INTEGER,
    status INTEGER,
    bytes BLOB,
    crc INTEGER NOT NULL
) STRICT;
-- The outcomes that are kept here until their claims go; 6 is an erased one.
CREATE INDEX audit_set_aside ON audit (operation_id) WHERE outcome_kind <> 6;

-- A stream's head. `checkpoint` is the place of the event that the latest checkpoint belongs to, `lease` the session of the runner.
CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    length INTEGER NOT NULL,
    hash BLOB,
    status TEXT,
    runner BLOB,
    lease INTEGER,
    checkpoint INTEGER,
    updated_at INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    agent TEXT,
    subject TEXT,
    created_at INTEGER NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX streams_name ON streams (name);
CREATE INDEX streams_status ON streams (status, name) WHERE status IS NOT NULL;

-- The head that each write has made, by the write's id: a write that is sent again is answered with it.
CREATE TABLE appends (
    stream INTEGER NOT NULL,
    id BLOB NOT NULL,
    version INTEGER NOT NULL,
    length INTEGER NOT NULL,
    hash BLOB,
    status TEXT,
    runner BLOB,
    lease INTEGER,
    checkpoint INTEGER,
    updated_at INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (stream, id)
) STRICT, WITHOUT ROWID;

-- An event's id is its stream (id >> 32) and its place there, so no two events can have the same place. `checkpoint` is the SHA-256
-- of the checkpoint that belongs to it. A payload that was erased has no salt either, but the digest of both.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    salt BLOB,
    payload BLOB,
    digest BLOB,
    subject TEXT,
    checkpoint BLOB,
    hash BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;

-- The latest checkpoint of a stream; without bytes where it was erased.
CREATE TABLE checkpoints (
    stream INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    bytes BLOB
) STRICT;

CREATE TABLE documents (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE lanes (
    tenant TEXT NOT NULL,
    project TEXT NOT NULL,
    entity TEXT NOT NULL,
    lane BLOB NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (tenant, project, entity)
) STRICT, WITHOUT ROWID;

CREATE VIEW hapax_states (code, name) AS VALUES (2, 'held'), (3, 'settled'), (4, 'in_doubt'), (5, 'released');

CREATE VIEW hapax_claims AS
SELECT
    'op_' || lower(hex(c.operation_id)) AS operation_id,
    s.tenant, s.project, s.operation,
    n.name AS state,
    (c.epoch >> 48) || '.' || (c.epoch & 0xffffffffffff) AS epoch,
    c.session,
    datetime(c.opened_at / 1000000, 'unixepoch') AS opened_at,
    datetime(c.granted_at / 1000000, 'unixepoch') AS granted_at,
    datetime(c.since / 1000000, 'unixepoch') AS since,
    CASE WHEN c.until < 253402300800000000 THEN datetime(c.until / 1000000, 'unixepoch') ELSE 'never' END AS until,
    CASE c.rerun WHEN 1 THEN 'safe' WHEN 2 THEN 'ask' ELSE 'unsafe' END AS rerun,
    CASE c.outcome_kind WHEN 3 THEN 'succeeded' WHEN 4 THEN 'refused' WHEN 5 THEN 'not_kept' WHEN 6 THEN 'erased' END
        AS outcome,
    length(o.bytes) AS outcome_bytes
FROM claims c
JOIN shelves s ON s.id = c.id >> 40
JOIN hapax_states n ON n.code = c.state
LEFT JOIN outcomes o ON o.id = c.outcome;

CREATE VIEW hapax_events AS
SELECT s.name AS stream, e.id & 0xffffffff AS seq, e.kind, datetime(e.at / 1000000, 'unixepoch') AS at,
    lower(hex(e.hash)) AS hash, e.payload
FROM events e JOIN streams s ON s.id = e.id >> 32;

-- Executions are the streams named execution/{tenant}/{project}/{execution id}; none of the parts has a slash in it.
CREATE VIEW hapax_execution_streams AS
SELECT id, substr(rest, instr(rest, '/') + 1) AS execution_id, tenant, substr(rest, 1, instr(rest, '/') - 1) AS project
FROM (SELECT id, substr(name, 11, instr(substr(name, 11), '/') - 1) AS tenant,
        substr(name, 11 + instr(substr(name, 11), '/')) AS rest
    FROM streams WHERE name >= 'execution/' AND name < 'execution0');

CREATE VIEW hapax_executions AS
SELECT x.execution_id, s.agent AS agent_id, s.status, s.version,
    datetime(s.created_at / 1000000, 'unixepoch') AS created_at,
    datetime(s.updated_at / 1000000, 'unixepoch') AS updated_at,
    x.tenant, x.project
FROM hapax_execution_streams x JOIN streams s ON s.id = x.id;

CREATE VIEW hapax_execution_events AS
SELECT x.id || '.' || (e.id & 0xffffffff) AS event_id, x.execution_id, e.kind AS event_type, s.chain AS schema_version,
    CAST(e.payload AS TEXT) AS payload_json, lower(hex(e.hash)) AS event_hash,
    datetime(e.at / 1000000, 'unixepoch') AS created_at,
    x.tenant, x.project
FROM hapax_execution_streams x JOIN streams s ON s.id = x.id JOIN events e ON e.id >= (x.id << 32) AND e.id < ((x.id + 1) << 32);
